"""One call as an SVG timeline: bands of ten seconds, one above the other. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Final

import numpy as np

from inkplex_data.clock import FRAME_US, US_PER_S
from inkplex_data.grid import KINDS, TAG_EPAD, TAG_FIRST, TAG_LATER
from inkplex_data.plural import counted
from inkplex_data.printable import plain
from inkplex_data.report.view import CallView, Side

BAND_FRAMES: Final = 125
FRAME_PX: Final = 8
GUTTER_PX: Final = 92
WIDTH_PX: Final = GUTTER_PX + BAND_FRAMES * FRAME_PX + 40
LETTER_PX: Final = 6.4
"""Width of a letter; an estimate is enough to decide which of three lines a word goes on."""
WORD_LINES: Final = 3
WORD_PX: Final = 13
RANGE_DB: Final = 40.0
BEAT_US: Final = US_PER_S


@dataclass(frozen=True)
class ShownWord:
    """A word as it is shown; `pieces` are texts, of which the first `placed` are in the text stream."""

    text: str
    start_us: int
    end_us: int
    speaker: str
    is_agent: bool
    frame: int
    pieces: tuple[str, ...]
    placed: int

    @property
    def incomplete(self) -> bool:
        """Whether pieces of an agent's word found no place."""
        return self.is_agent and self.placed < len(self.pieces)


def words_of(view: CallView) -> list[ShownWord]:
    """All words of a call by onset."""
    words = view.words.sort("start_us", maintain_order=True)
    columns = ("text", "start_us", "end_us", "speaker", "frame", "pieces", "placed")
    return [
        ShownWord(
            text=plain(text) or "·",
            start_us=start_us,
            end_us=end_us,
            speaker=plain(speaker or "unknown"),
            is_agent=view.main_speaker in (None, speaker),
            frame=-1 if frame is None else frame,
            pieces=tuple(plain(view.piece(piece)) for piece in pieces or ()),
            placed=len(pieces or ()) if placed is None else placed,
        )
        for text, start_us, end_us, speaker, frame, pieces, placed in words.select(columns).iter_rows()
    ]


@dataclass
class _Canvas:
    """Elements so far, and how far down the page they reach."""

    parts: list[str] = field(default_factory=list)
    y: float = 0.0

    def rect(self, x: float, y: float, width: float, height: float, *, style: str, title: str = "") -> None:
        box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{style}"'
        self.parts.append(f"{box}><title>{html_text(title)}</title></rect>" if title else f"{box}/>")

    def line(self, x: float, y1: float, y2: float, style: str) -> None:
        self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def text(self, x: float, y: float, text: str, style: str, title: str = "") -> None:
        tip = f"<title>{html_text(title)}</title>" if title else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{html_text(text)}{tip}</text>')

    def label(self, text: str, height: float, style: str = "lane") -> None:
        self.text(GUTTER_PX - 8, self.y + height / 2 + 4, text, f"{style} end")


def timeline_svg(view: CallView) -> str:
    """The whole call. Colours come from CSS classes, so that the page decides on them.

    `data-bands` says for each band its first frame, its top and its bottom, for a playhead.
    """
    canvas = _Canvas()
    words = words_of(view)
    _prefix(canvas, view)
    bands: list[str] = []
    for start in range(0, view.frames, BAND_FRAMES):
        top = canvas.y
        _band(canvas, view, words, start, min(start + BAND_FRAMES, view.frames))
        bands.append(f"{start} {top:.1f} {canvas.y:.1f}")
        canvas.y += 18
    return (
        f'<svg viewBox="0 0 {WIDTH_PX} {canvas.y:.0f}" role="img" aria-label="{html_text(view.call_id)}" class="timeline" '
        f'data-frames="{view.frames}" data-left="{GUTTER_PX}" data-frame-px="{FRAME_PX}" data-bands="{",".join(bands)}">'
        + "".join(canvas.parts)
        + "</svg>"
    )


def _prefix(canvas: _Canvas, view: CallView) -> None:
    prefix = view.prefix
    if prefix is None or not prefix.frames:
        return
    scale = min(FRAME_PX, BAND_FRAMES * FRAME_PX / prefix.frames)
    canvas.label("prefix", 16)
    x: float = GUTTER_PX
    for what, frames in prefix.parts():
        kind = what.split()[0]
        canvas.rect(
            x, canvas.y + 2, frames * scale - 1, 12, style=f"prefix-{kind}", title=f"{what}: {frames} frames"
        )
        x += frames * scale
    canvas.y += 16
    caption = " + ".join(f"{what} {frames}" for what, frames in prefix.parts())
    canvas.text(
        GUTTER_PX, canvas.y + 12, f"{caption} = {prefix.frames} frames, before 0:00, carries no loss", "note"
    )
    canvas.y += 30


def _band(canvas: _Canvas, view: CallView, words: list[ShownWord], start: int, stop: int) -> None:
    top = canvas.y
    marks = [mark for mark in view.marks if start <= mark.frame < stop]
    for mark in marks:
        canvas.text(_x(mark.frame, start) + 4, top + 10, f"▾ {plain(mark.label)}", "mark-label")
    troubles = [one for one in view.problems if one.frame is not None and start <= one.frame < stop]
    for trouble in troubles:
        assert trouble.frame is not None
        title = f"{trouble.code}: {trouble.message}"
        canvas.text(
            _x(trouble.frame, start), top + 10, "▾", f"trouble {severity_class(trouble.severity)}", title
        )
    canvas.y += 14 if marks or troubles else 0
    _axis(canvas, view, start, stop)
    for side in view.sides:
        _energy(canvas, view, side, start, stop)
        _words(canvas, [word for word in words if word.is_agent == (side == "agent")], start, stop)
        if side == "agent":
            _text_stream(canvas, view, start, stop)
    _memory(canvas, view, start, stop)
    for mark in marks:
        canvas.line(_x(mark.frame, start), top + 2, canvas.y, "mark")


def severity_class(severity: str) -> str:
    """The CSS class of a severity; what is none of the known ones is shown as the mildest."""
    return severity if severity in ("error", "repair", "info") else "info"


def _axis(canvas: _Canvas, view: CallView, start: int, stop: int) -> None:
    first = -(-start * FRAME_US // BEAT_US)
    for second in range(first, (stop * FRAME_US - 1) // BEAT_US + 1):
        x = GUTTER_PX + (second * BEAT_US / FRAME_US - start) * FRAME_PX
        canvas.line(x, canvas.y + 12, canvas.y + 18, "tick")
        canvas.text(x, canvas.y + 10, f"{second // 60}:{second % 60:02d}", "axis")
    canvas.y += 20


def _energy(canvas: _Canvas, view: CallView, side: Side, start: int, stop: int) -> None:
    height = 26.0
    canvas.label(side, height, side)
    _gaps(canvas, view, side, start, stop, height=height)
    level = view.agent_db if side == "agent" else view.caller_db
    if level is None:
        for first, end in _runs(view.spoken(side)[start:stop]):
            canvas.rect(
                GUTTER_PX + first * FRAME_PX,
                canvas.y + height - 8,
                (end - first) * FRAME_PX,
                6,
                style=f"fill-{side} soft",
            )
    else:
        known = [db.max() for db in (view.agent_db, view.caller_db) if db is not None and len(db)]
        floor = max(known) - RANGE_DB
        for frame, db in enumerate(level[start:stop].tolist()):
            bar = min(max((db - floor) / RANGE_DB, 0.0), 1.0) * (height - 2)
            if bar > 0.5:
                canvas.rect(_x(frame, 0), canvas.y + height - bar, FRAME_PX - 1, bar, style=f"fill-{side}")
    canvas.y += height


def _words(canvas: _Canvas, words: list[ShownWord], start: int, stop: int) -> None:
    ends = [0.0] * WORD_LINES
    used = 0
    for word in words:
        if not start * FRAME_US <= word.start_us < stop * FRAME_US:
            continue
        x = GUTTER_PX + (word.start_us / FRAME_US - start) * FRAME_PX
        line = next((line for line, end in enumerate(ends) if end <= x), WORD_LINES - 1)
        used = max(used, line + 1)
        ends[line] = x + (len(word.text) + 1) * LETTER_PX
        style = "word lost" if word.incomplete else "word"
        canvas.text(x, canvas.y + 11 + line * WORD_PX, word.text, style, _word_title(word))
    canvas.y += used * WORD_PX + 4


def _word_title(word: ShownWord) -> str:
    title = f"{word.text}: {word.start_us / US_PER_S:.2f}–{word.end_us / US_PER_S:.2f} s, {word.speaker}"
    if word.pieces:
        title += f"; frame {word.frame}, pieces {' '.join(word.pieces)}"
    if word.incomplete:
        title += f"; only {word.placed} of {len(word.pieces)} placed"
    return title


def _text_stream(canvas: _Canvas, view: CallView, start: int, stop: int) -> None:
    height = 16.0
    canvas.label("text", height)
    _gaps(canvas, view, "text", start, stop, height=height)
    canvas.rect(GUTTER_PX, canvas.y + height - 3, (stop - start) * FRAME_PX, 1, style="pad")
    for frame in range(start, stop):
        tag, x = int(view.tags[frame]), _x(frame, start)
        if tag in (TAG_FIRST, TAG_LATER):
            size = 13.0 if tag == TAG_FIRST else 7.0
            style = "fill-agent" if tag == TAG_FIRST else "fill-agent soft"
            title = f"frame {frame}: {view.piece(int(view.ids[frame]))}"
            canvas.rect(x, canvas.y + height - 2 - size, FRAME_PX - 1, size, style=style, title=title)
        elif tag == TAG_EPAD:
            canvas.rect(
                x + FRAME_PX - 3, canvas.y + 4, 1.5, height - 6, style="epad", title=f"frame {frame}: EPAD"
            )
    canvas.y += height + 6


def _gaps(canvas: _Canvas, view: CallView, modality: str, start: int, stop: int, *, height: float) -> None:
    for first, end in _runs(view.gaps(modality)[start:stop]):
        title = f"no loss on {modality}: frames {start + first}–{start + end - 1}"
        canvas.rect(
            GUTTER_PX + first * FRAME_PX, canvas.y, (end - first) * FRAME_PX, height, style="gap", title=title
        )


def _memory(canvas: _Canvas, view: CallView, start: int, stop: int) -> None:
    memory = view.memory
    if memory is None:
        return
    canvas.y += 4
    for index, kind in enumerate(KINDS):
        if not memory.arrivals[index].any():
            continue
        height = 13.0
        canvas.label(kind, height, f"kind-{kind}")
        canvas.rect(GUTTER_PX, canvas.y + height - 1, (stop - start) * FRAME_PX, 1, style="pad")
        for frame in np.flatnonzero(memory.arrivals[index, start:stop]).tolist():
            count = int(memory.arrivals[index, start + frame])
            size = min(count.bit_length(), 8) / 8 * (height - 2)
            title = f"{counted(count, f'{kind} token')} from frame {start + frame} on"
            canvas.rect(
                _x(frame, 0),
                canvas.y + height - 1 - size,
                FRAME_PX - 1,
                size,
                style=f"kind-{kind}",
                title=title,
            )
        canvas.y += height
    height, top = 22.0, max(int(memory.live.max()), 1)
    canvas.label(f"live {int(memory.live[stop - 1]):,}", height)
    bottom = canvas.y + height
    points = [f"{GUTTER_PX},{bottom:.1f}"]
    for frame in range(start, stop):
        y = bottom - int(memory.live[frame]) / top * (height - 4)
        points += [f"{_x(frame, start):.1f},{y:.1f}", f"{_x(frame + 1, start):.1f},{y:.1f}"]
    points.append(f"{_x(stop, start):.1f},{bottom:.1f}")
    canvas.parts.append(f'<polygon points="{" ".join(points)}" class="live"/>')
    canvas.y += height


def _runs(flags: np.ndarray) -> Iterator[tuple[int, int]]:
    """[first, end) of every run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def html_text(text: str) -> str:
    """`text` on one line, escaped."""
    return escape(plain(text))


def _x(frame: int, start: int) -> float:
    return GUTTER_PX + (frame - start) * FRAME_PX
