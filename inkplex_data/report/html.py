"""A store as one self-contained HTML page: no script, no font, no external link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

import polars as pl

from inkplex_data.clock import US_PER_S
from inkplex_data.plural import counted
from inkplex_data.report.summary import StoreSummary
from inkplex_data.report.svg import html_text as _text
from inkplex_data.report.svg import timeline_svg
from inkplex_data.report.terminal_tables import (
    GROUP_COLUMNS,
    OUTLIER_COLUMNS,
    SPLIT_COLUMNS,
    byte_count,
    group_rows,
    outlier_rows,
    percent,
    split_rows,
    summary_facts,
)
from inkplex_data.report.view import CallView

OUTLIERS = 20
LISTED = 1_000
"""Most calls in the table; nobody would read a longer page."""


def render_page(
    summary: StoreSummary,
    calls: pl.DataFrame,
    views: Iterable[CallView],
    *,
    scores: pl.DataFrame | None = None,
    listed: int = LISTED,
) -> Iterator[str]:
    """The page in pieces, so that only one drawn call is in memory. `calls` in the form `format.CALLS`.

    scores: as `text_scores.SCORES`; with them, the calls that surprise most are listed. Every text of the store is escaped; what cannot be printed is replaced.
    """
    style = files("inkplex_data.report").joinpath("style.css").read_text(encoding="utf-8")
    title = _text(summary.title)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body><main>\n"
        f'<h1>{title}</h1><p class="dim">Calls on the Mimi grid, 12.5 frames per second.</p>\n'
    )
    yield from (f'<p class="warning">{_text(warning)}</p>\n' for warning in summary.warnings)
    yield _tiles(summary)
    yield _facts(summary_facts(summary))
    yield "<h2>Splits</h2>\n" + _splits(summary)
    if summary.groups.height:
        yield "<h2>Origins and targets</h2>\n" + _table(GROUP_COLUMNS, _group_cells(summary))
    yield "<h2>Problems</h2>\n" + _problems(summary)
    if scores is not None:
        yield "<h2>Outliers</h2>\n" + _table(
            OUTLIER_COLUMNS, [[_text(cell) for cell in row] for row in outlier_rows(scores, OUTLIERS)]
        )
    drawn: list[str] = []
    timelines = iter(views)
    yield "<h2>Timelines</h2>\n" + _KEY
    for view in timelines:
        yield _call(view, opened=not drawn)
        drawn.append(view.call_id)
    yield "<h2>Calls</h2>\n" + _calls(calls, set(drawn), listed)
    yield "</main></body></html>\n"


_KEY = (
    '<p class="dim">Bars show the level of a channel, blocks the text stream (tall: first piece of a word; low: later '
    "piece; thin line: end of padding). Frames on red carry no loss; words in red have pieces that were not placed. "
    "Below them are the recording's tokens, at the frames that first see them, and the size of the memory. Hover over "
    "any mark for details.</p>\n"
)


def _tiles(summary: StoreSummary) -> str:
    tiles = [
        (f"{summary.calls:,}", "calls"),
        (f"{summary.hours:,.2f} h", "of audio"),
        (f"{summary.tokens:,}", "recorded tokens"),
        (percent(summary.pad_fraction), "PAD and EPAD"),
        (f"{summary.refused:,}", "calls refused"),
    ]
    if summary.bytes_by_part:
        tiles.append((byte_count(sum(summary.bytes_by_part.values())), "on disk"))
    inner = "".join(
        f'<div class="tile"><b>{_text(value)}</b><span>{name}</span></div>' for value, name in tiles
    )
    return f'<div class="tiles">{inner}</div>\n'


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    inner = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts)
    return f'<dl class="facts">{inner}</dl>\n'


def _chips(facts: Iterable[tuple[str, str]]) -> str:
    inner = "".join(f"<span><span>{_text(name)}</span>{_text(value)}</span>" for name, value in facts)
    return f'<div class="chips">{inner}</div>\n'


def _splits(summary: StoreSummary) -> str:
    rows = [[_text(split or "–"), *counts] for split, *counts in split_rows(summary)]
    return _table(SPLIT_COLUMNS, rows)


def _group_cells(summary: StoreSummary) -> list[list[str]]:
    return [[_text(by), _text(group), *counts] for by, group, *counts in group_rows(summary)]


def _problems(summary: StoreSummary) -> str:
    if not summary.problems.height:
        return "<p>None.</p>\n"
    rows = []
    for row in summary.problems.iter_rows(named=True):
        severity = row["severity"] if row["severity"] in ("error", "repair", "info") else "info"
        remedy = f' <span class="dim">{_text(row["remedy"])}</span>' if row["remedy"] else ""
        rows.append(
            [
                f'<span class="code {severity}">{_text(row["code"])}</span>',
                f'<span class="{severity}">{_text(row["severity"])}</span>',
                f"{row['calls']:,}",
                f"{row['count']:,}",
                f'{_text(row["meaning"] or "")}{remedy}<br><span class="dim">e.g. {_text(row["example"] or "")}</span>',
            ]
        )
    return _table(["problem", "severity", "#calls", "#count", "meaning and remedy"], rows)


def _calls(calls: pl.DataFrame, drawn: set[str], listed: int) -> str:
    rows = []
    for row in calls.head(listed).iter_rows(named=True):
        name = _text(row["call_id"])
        rows.append(
            [
                f'<a href="#{_anchor(row["call_id"])}">{name}</a>' if row["call_id"] in drawn else name,
                _text(row["split"] or "–"),
                _text(row["family"] or "–"),
                _text(row["voice"] or "–"),
                f"{row['duration_us'] / US_PER_S:,.1f} s",
                f"{row['words']:,}",
                percent(row["pad_fraction"]),
                f"{row['pieces_dropped'] or 0:,}",
                _text(row["recording_id"] or "–"),
                f"{row['versions']:,}",
            ]
        )
    headings = [
        "call",
        "split",
        "family",
        "voice",
        "#length",
        "#words",
        "#PAD",
        "#dropped",
        "recording",
        "#versions",
    ]
    more = f'<p class="dim">and {counted(calls.height - listed, "more call")}</p>\n'
    return _table(headings, rows) + (more if calls.height > listed else "")


def _call(view: CallView, *, opened: bool) -> str:
    seconds = f"{view.frames * 0.08:.1f} s"
    return (
        f'<details id="{_anchor(view.call_id)}"{" open" if opened else ""}><summary>{_text(view.call_id)} '
        f'<span class="dim">{seconds}, {view.frames:,} frames</span></summary><div>\n'
        f'{_chips(view.facts.items())}<div class="scroll">{timeline_svg(view)}</div></div></details>\n'
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`rows` are already HTML; columns whose heading begins with # hold numbers."""
    numbers = [heading.startswith("#") for heading in headings]
    styles = [' class="number"' if number else "" for number in numbers]
    head = "".join(
        f"<th{style}>{_text(name.removeprefix('#'))}</th>"
        for name, style in zip(headings, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{style}>{cell}</td>" for cell, style in zip(row, styles, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _anchor(call_id: str) -> str:
    """An id without spaces or quotes, always the same for the same call."""
    return "call-" + call_id.encode("utf-8", "replace").hex()
