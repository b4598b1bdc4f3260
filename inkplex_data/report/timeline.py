"""One call in the terminal: both voices, words, text stream, loss gaps, prefix and memory on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.cells import chop_cells
from rich.console import Group, RenderableType
from rich.text import Text

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_US
from inkplex_data.grid import KINDS, TAG_EPAD, TAG_FIRST, TAG_LATER, TAG_PREFIX
from inkplex_data.plural import counted
from inkplex_data.printable import plain
from inkplex_data.report.view import CallView, Memory, Side

BARS = " ▁▂▃▄▅▆▇█"
AGENT, CALLER, QUIET, LOST = "cyan", "yellow", "bright_black", "bold red"
SIDE_STYLES: dict[Side, str] = {"agent": AGENT, "caller": CALLER}
KIND_STYLES = {
    "setup": "default", "user": "yellow", "thinking": "blue", "tool_call": "magenta",
    "reply": "cyan", "tool_result": "green", "other": QUIET,
}  # fmt: skip
TAG_GLYPHS = {TAG_EPAD: "╷", TAG_FIRST: "█", TAG_LATER: "▖", TAG_PREFIX: "▒"}
TAG_STYLES = {TAG_EPAD: "default", TAG_FIRST: "bold cyan", TAG_LATER: "cyan", TAG_PREFIX: QUIET}
LABEL = 13
"""Columns for the lane names on the left."""
RANGE_DB = 36.0
"""Range of a bar, downwards from the loudest frame of the call."""
WORD_LINES = 3
LONG_ROWS = 24
"""A call that would need more rows than this at one frame per column is drawn with more frames per column."""


def render_call(view: CallView, width: int = 100) -> RenderableType:
    """Draw `view` in `width` columns, wrapped into rows of equal length.

    One column is one frame, unless that takes more than two dozen rows.
    Raises ValueError for a width in which nothing can be drawn.
    """
    columns = width - LABEL - 1
    if columns < 20:
        raise ValueError(f"a timeline needs at least {LABEL + 21} columns, not {width}")
    step = max(1, -(-view.frames // (columns * LONG_ROWS)))
    lines: list[Text] = [*_header(view, width), *_prefix(view, columns)]
    total = -(-view.frames // step)
    rows = max(1, -(-total // columns))
    per_row = -(-total // rows) * step
    for start in range(0, view.frames, max(per_row, 1)):
        stop = min(start + per_row, view.frames)
        lines += [Text(), *_row(view, start, stop, step)]
    lines += [Text(), *_legend(view, step, width)]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _header(view: CallView, width: int) -> Iterator[Text]:
    yield Text.assemble(
        (plain(view.call_id), "bold"), "  ", (f"{_clock(view.frames)} · {view.frames} frames", QUIET)
    )
    line = Text()
    for name, value in view.facts.items():
        fact = Text.assemble((f"{plain(name)} ", QUIET), plain(value))
        if line and len(line) + 3 + len(fact) > width:
            yield line
            line = Text()
        line = Text.assemble(line, "   " if line else "", fact)
    if line:
        yield line


def _prefix(view: CallView, columns: int) -> Iterator[Text]:
    prefix = view.prefix
    if prefix is None or not prefix.frames:
        return
    scale = min(1.0, columns / prefix.frames)
    bar, caption = _lane("prefix"), _lane("")
    glyphs = {"voice": ("▒", AGENT), "role": ("█", AGENT), "silence": ("·", QUIET)}
    for what, frames in prefix.parts():
        glyph, style = glyphs[what.split()[0]]
        bar.append(glyph * max(1, int(frames * scale)), style)
        caption.append(("" if len(caption) <= LABEL else " + ") + f"{plain(what)} {frames}", QUIET)
    caption.append(f" = {prefix.frames} frames, carries no loss", QUIET)
    yield Text()
    yield bar
    yield caption
    if prefix.role:
        yield Text.assemble(_lane("role"), (plain(" ".join(prefix.role.split())), QUIET))


def _row(view: CallView, start: int, stop: int, step: int) -> Iterator[Text]:
    yield from _axis(view, start, stop, step)
    for side in view.sides:
        yield _energy(view, side, start, stop, step)
        yield from _words(view, side, start, stop, step)
        if side == "agent":
            yield _text_stream(view, start, stop, step)
    for modality in view.modalities:
        gaps = [bool(column.any()) for column in _columns(view.gaps(modality)[start:stop], step)]
        if any(gaps):
            yield _glyphs(f"╳ {modality}", ["╳" if gap else " " for gap in gaps], ["red"] * len(gaps))
    if view.memory is not None:
        yield from _memory(view.memory, start, stop, step)


def _axis(view: CallView, start: int, stop: int, step: int) -> Iterator[Text]:
    cells = [" "] * -(-(stop - start) // step)
    every_s = next((s for s in (1, 2, 5, 10, 30, 60, 300) if s * FRAME_RATE_HZ / step >= 8), 600)
    first_s = -(-start * FRAME_US // (every_s * 1_000_000)) * every_s
    for second in range(first_s, int(stop / FRAME_RATE_HZ) + 1, every_s):
        column = (second * 1_000_000 // FRAME_US - start) // step
        tick = f"╷{second // 60}:{second % 60:02d}"
        if column + len(tick) <= len(cells):
            cells[column : column + len(tick)] = tick
    yield Text.assemble(_lane(""), ("".join(cells), QUIET))
    marks = [mark for mark in view.marks if start <= mark.frame < stop]
    if marks:
        line = _lane("")
        for mark in sorted(marks, key=lambda mark: mark.frame):
            line.pad_right(max(LABEL + (mark.frame - start) // step - len(line), 0))
            line.append(f"▼ {plain(mark.label)} ", "bold green")
        yield line


def _energy(view: CallView, side: Side, start: int, stop: int, step: int) -> Text:
    style = SIDE_STYLES[side]
    level = view.agent_db if side == "agent" else view.caller_db
    if level is None:
        spoken = [bool(column.any()) for column in _columns(view.spoken(side)[start:stop], step)]
        return _glyphs(side, ["▬" if frame else " " for frame in spoken], [style] * len(spoken), style)
    known = [db.max() for db in (view.agent_db, view.caller_db) if db is not None and len(db)]
    top = max(known, default=0.0)
    loudest = _columns(level[start:stop], step, empty=-np.inf).max(axis=1)
    bars = np.clip(np.ceil((loudest - (top - RANGE_DB)) / RANGE_DB * 8), 0, 8).astype(int)
    return _glyphs(side, [BARS[bar] for bar in bars], [style] * len(bars), style)


def _words(view: CallView, side: Side, start: int, stop: int, step: int) -> Iterator[Text]:
    """Words at their onsets, on up to three lines; a word that fits on none of them is cut."""
    words = view.side_words(side).filter(
        (pl.col("start_us") >= start * FRAME_US) & (pl.col("start_us") < stop * FRAME_US)
    )
    width = -(-(stop - start) // step)
    lines = [Text() for _ in range(WORD_LINES)]
    for text, start_us, pieces, placed in words.select("text", "start_us", "pieces", "placed").iter_rows():
        column = (start_us // FRAME_US - start) // step
        line = next((line for line in lines if not line or line.cell_len < column), None)
        if line is None:
            line = min(lines, key=lambda line: line.cell_len)
            line.truncate(max(column - 1, 0))
        line.pad_right(column - line.cell_len)
        lost = side == "agent" and placed is not None and placed < len(pieces or ())
        line.append(chop_cells(plain(text) or "·", max(width - column, 1))[0], LOST if lost else "default")
    for line in lines:
        if line.plain.strip():
            yield Text.assemble(_lane(""), line)


def _text_stream(view: CallView, start: int, stop: int, step: int) -> Text:
    """Of several frames in a column, the most telling one is shown: first piece, later piece, EPAD, PAD."""
    order = np.zeros(256, np.int64)
    order[[TAG_EPAD, TAG_LATER, TAG_FIRST]] = 1, 2, 3
    tags = _columns(view.tags[start:stop], step)
    shown = np.take_along_axis(tags, order[tags].argmax(axis=1)[:, None], axis=1)[:, 0]
    glyphs = [TAG_GLYPHS.get(tag, "·") for tag in shown.tolist()]
    return _glyphs("text", glyphs, [TAG_STYLES.get(tag, QUIET) for tag in shown.tolist()])


def _memory(memory: Memory, start: int, stop: int, step: int) -> Iterator[Text]:
    for kind, arrivals in zip(KINDS, memory.arrivals, strict=True):
        counts = _columns(arrivals[start:stop], step).sum(axis=1)
        if counts.any():
            style = KIND_STYLES[kind]
            yield _glyphs(f"+{kind}", [_count_bar(count) for count in counts], [style] * len(counts), style)
    live = _columns(memory.live[start:stop], step).max(axis=1)
    top = max(int(memory.live.max()), 1)
    bars = [BARS[max(-(-8 * int(size) // top), 0)] for size in live]
    yield _glyphs(f"live {_short(int(memory.live[stop - 1]))}", bars, [QUIET] * len(bars))


def _count_bar(count: int) -> str:
    """Each doubling, 1, 2, 4 … 128 tokens, adds an eighth to the bar."""
    return BARS[min(int(count).bit_length(), 8)]


def _legend(view: CallView, step: int, width: int) -> Iterator[Text]:
    parts: list[Sequence[tuple[str, str]]] = [
        [
            ("text ", QUIET),
            ("█", "bold cyan"),
            (" first piece ", QUIET),
            ("▖", AGENT),
            (" later piece ", QUIET),
        ],
        [("╷", "default"), (" EPAD ", QUIET), ("·", QUIET), (" PAD", QUIET)],
    ]
    lost = view.side_words("agent").filter(pl.col("placed") < pl.col("pieces").list.len()).height
    if lost:
        parts.append([("   red", LOST), (f" {counted(lost, 'word')} with pieces not placed", QUIET)])
    yield Text.assemble(*(part for group in parts for part in group))
    if view.memory is not None:
        memory = view.memory
        known = ", ".join(f"{kind} {count}" for kind, count in memory.before.items()) or "none"
        yield Text("new tokens ▁ 1 ▂ 2 ▃ 4 ▄ 8 ▅ 16 ▆ 32 ▇ 64 █ 128 or more per column", QUIET)
        yield Text(f"in memory at 0:00: {known}", QUIET)
        later = f"; {counted(memory.later, 'token')} after the call's end" if memory.later else ""
        yield Text(f"live: tokens in memory at the end of the row, window {view.window:,}{later}", QUIET)
    notes = [] if step == 1 else [f"one column is {step} frames"]
    if any(view.gaps(modality).any() for modality in view.modalities):
        notes.append("╳ frames that carry no loss")
    missing = [name for name, db in (("agent", view.agent_db), ("caller", view.caller_db)) if db is None]
    if missing:
        notes.append(f"▬ {' and '.join(missing)} drawn from word times, as the audio levels are not stored")
    if notes:
        yield Text("; ".join(notes), QUIET)


def _lane(name: str) -> Text:
    return Text(f"{name:>{LABEL - 1}} ", QUIET)


def _glyphs(name: str, glyphs: Sequence[str], styles: Sequence[str], label_style: str = QUIET) -> Text:
    line = Text(f"{name:>{LABEL - 1}} ", label_style)
    for style, run in groupby(zip(glyphs, styles, strict=True), key=itemgetter(1)):
        line.append("".join(glyph for glyph, _ in run), style)
    return line


def _columns(values: NDArray[Any], step: int, *, empty: float = 0) -> NDArray[Any]:
    """[n] to [columns, step], the last column filled up with `empty`."""
    missing = -len(values) % step
    if missing:
        values = np.concatenate([values, np.full(missing, empty, values.dtype)])
    return values.reshape(-1, step)


def _short(count: int) -> str:
    return f"{count:,}" if count < 100_000 else f"{count // 1000:,}k"


def _clock(frames: int) -> str:
    tenths = frames * FRAME_US // 100_000
    return f"{tenths // 600}:{tenths // 10 % 60:02d}.{tenths % 10}"
