"""A store as HTML pages that need nothing else: style, script and sound are in each, and no browser asks anybody for more."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files

import polars as pl

from inkplex_data.clock import US_PER_S
from inkplex_data.plural import counted
from inkplex_data.report.call_filters import Filters
from inkplex_data.report.call_section import DrawnCall, anchor, call_body, call_section
from inkplex_data.report.histograms import DrawnMeasures, histograms
from inkplex_data.report.summary import StoreSummary
from inkplex_data.report.svg import html_text as _text
from inkplex_data.report.svg import severity_class
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
from inkplex_data.store.format import PROBLEMS
from inkplex_data.store.statistics import measured

OUTLIERS = 20
LISTED = 1_000
"""Most calls in the table; nobody would read a longer page."""
INDEX = "index.html"


def render_page(
    summary: StoreSummary,
    calls: pl.DataFrame,
    drawn: Iterable[DrawnCall],
    *,
    problems: pl.DataFrame | None = None,
    scores: pl.DataFrame | None = None,
    listed: int = LISTED,
) -> Iterator[str]:
    """The page in pieces, so that only one drawn call is in memory. `calls` and `problems` in the form `format.CALLS` and
    `PROBLEMS`.

    scores: as `text_scores.SCORES`; with them, the calls that surprise most are listed.
    Every text of the store is escaped; what cannot be printed is replaced.
    """
    filters = Filters.of(calls, pl.DataFrame(schema=dict(PROBLEMS)) if problems is None else problems)

    def body() -> Iterator[str]:
        yield from _top(summary, calls, scores)
        yield "<h2>Timelines</h2>\n" + _KEY
        yield filters.bar()
        links: dict[str, str] = {}
        measures = DrawnMeasures()
        for call in drawn:
            call_id = call.view.call_id
            measures.add(call.view)
            yield call_section(call, filters.attributes(call_id), opened=not links)
            links[call_id] = f"#{anchor(call_id)}"
        if links:
            yield "<h3>Of the drawn calls</h3>\n" + histograms(measures.measured())
        yield "<h2>Calls</h2>\n" + _calls(calls, links, listed, filters)

    yield from _document(summary.title, body())


def render_index(
    summary: StoreSummary,
    calls: pl.DataFrame,
    links: Mapping[str, str],
    *,
    problems: pl.DataFrame,
    measures: DrawnMeasures,
    scores: pl.DataFrame | None = None,
) -> Iterator[str]:
    """The first page of a folder; `links` are the pages of its drawn calls. Otherwise as `render_page`."""
    filters = Filters.of(calls, problems)

    def body() -> Iterator[str]:
        yield from _top(summary, calls, scores)
        yield "<h3>Of the drawn calls</h3>\n" + histograms(measures.measured())
        yield "<h2>Calls</h2>\n" + filters.bar()
        first = pl.col("call_id").is_in(list(links))
        yield _calls(calls.sort(~first, maintain_order=True), links, max(LISTED, len(links)), filters)

    yield from _document(summary.title, body())


def render_call(call: DrawnCall, store: str) -> Iterator[str]:
    """The page of one call in a folder."""
    body = [f'<p><a href="../{INDEX}">← {_text(store)}</a></p>\n', _KEY, call_body(call)]
    return _document(call.view.call_id, body)


def _document(title: str, body: Iterable[str]) -> Iterator[str]:
    room = files("inkplex_data.report")
    style, script = (room.joinpath(name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; media-src data:"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{_text(title)}</title>\n<style>\n{style}</style></head>\n<body><main>\n"
        f"<h1>{_text(title)}</h1>"
    )
    yield from body
    yield f"</main><script>{script}</script></body></html>\n"


def _top(summary: StoreSummary, calls: pl.DataFrame, scores: pl.DataFrame | None) -> Iterator[str]:
    yield '<p class="dim">Calls on the Mimi grid, 12.5 frames per second.</p>\n'
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
    yield "<h2>Distributions</h2>\n" + _MEASURES + histograms(measured(calls))


_MEASURES = (
    '<p class="dim">All calls, in bars between the first and the last percent; what lies beyond is in the outermost bars. '
    "The dashed line is the mean of people where it was measured: Fisher, and the gap over ten languages.</p>\n"
)
_KEY = (
    '<p class="dim">Bars show the level of a channel, blocks the text stream (tall: first piece of a word; low: later '
    "piece; thin line: end of padding). Frames on red carry no loss; words in red have pieces that were not placed; ▾ is a "
    "problem. Below them are the recording's tokens, at the frames that first see them, and the size of the memory. Hover over "
    "any mark for details. Click a place to hear it; on a timeline, Space plays, arrows move by a second, with Shift by a "
    "frame.</p>\n"
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
        severity = severity_class(row["severity"])
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


def _calls(calls: pl.DataFrame, links: Mapping[str, str], listed: int, filters: Filters) -> str:
    rows, attributes = [], []
    for row in calls.head(listed).iter_rows(named=True):
        name, link = _text(row["call_id"]), links.get(row["call_id"])
        attributes.append(filters.attributes(row["call_id"]))
        rows.append(
            [
                name if link is None else f'<a href="{_text(link)}">{name}</a>',
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
    return _table(headings, rows, attributes) + (more if calls.height > listed else "")


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], attributes: Sequence[str] | None = None
) -> str:
    """`rows` and the `attributes` of each are already HTML; columns whose heading begins with # hold numbers."""
    numbers = [heading.startswith("#") for heading in headings]
    styles = [' class="number"' if number else "" for number in numbers]
    head = "".join(
        f"<th{style}>{_text(name.removeprefix('#'))}</th>"
        for name, style in zip(headings, styles, strict=True)
    )
    body = "".join(
        f"<tr{own}>"
        + "".join(f"<td{style}>{cell}</td>" for cell, style in zip(row, styles, strict=True))
        + "</tr>\n"
        for row, own in zip(rows, attributes or [""] * len(rows), strict=True)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
