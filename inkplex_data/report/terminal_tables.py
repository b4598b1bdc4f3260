"""Tables for the terminal: a store's summary, its calls, problems and statistics."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inkplex_data.clock import US_PER_S
from inkplex_data.plural import counted
from inkplex_data.printable import plain
from inkplex_data.report.summary import StoreSummary
from inkplex_data.text_scores import costly_words, outliers

QUIET = "bright_black"
SPLIT_COLUMNS = ("split", "#calls", "#families", "#hours", "#with memory")
OUTLIER_COLUMNS = ("call", "#deviations", "#bits/byte", "#agent", "#caller", "costliest words")
GROUP_COLUMNS = ("by", "group", "#calls", "#families", "#hours")
SEVERITY_STYLES = {"error": "bold red", "repair": "yellow", "info": QUIET}


def render_summary(summary: StoreSummary) -> RenderableType:
    """Counts, splits, identities, problems by code."""
    parts: list[RenderableType] = [_cell(summary.title, "bold"), _counts(summary)]
    parts += [Text(f"! {plain(warning)}", "bold yellow") for warning in summary.warnings]
    if summary.splits.height:
        parts += [Text(), _splits(summary)]
    if summary.groups.height:
        parts += [Text(), _groups(summary)]
    parts += [Text(), render_problems(summary)]
    return Group(*parts)


def render_calls(calls: pl.DataFrame, *, limit: int = 50) -> RenderableType:
    """One line per call: `calls` in the form `format.CALLS`. Says how many lines were left out."""
    table = _table("call", "split", "family", "#length", "#words", "#PAD", "#dropped", "recording")
    for row in calls.head(limit).iter_rows(named=True):
        dropped = row["pieces_dropped"] or 0
        table.add_row(
            _cell(row["call_id"], "bold"),
            _cell(row["split"]),
            _cell(row["family"]),
            f"{row['duration_us'] / US_PER_S:.1f} s",
            f"{row['words']:,}",
            percent(row["pad_fraction"]),
            Text(f"{dropped:,}", "yellow" if dropped else QUIET),
            _cell(row["recording_id"]),
        )
    hidden = calls.height - limit
    return Group(table, Text(f"and {counted(hidden, 'more call')}", QUIET)) if hidden > 0 else table


def render_problems(summary: StoreSummary) -> RenderableType:
    """Problems by code, with what each means and what to do about it."""
    if not summary.problems.height:
        return Text("No problems.", "green")
    table = _table("problem", "severity", "#calls", "#count", "meaning and remedy")
    for row in summary.problems.iter_rows(named=True):
        style = SEVERITY_STYLES.get(row["severity"], "default")
        meaning = Text(row["meaning"] or plain(row["example"] or ""))
        if row["remedy"]:
            meaning.append(f" {row['remedy']}", QUIET)
        table.add_row(
            _cell(row["code"], style),
            _cell(row["severity"], style),
            f"{row['calls']:,}",
            f"{row['count']:,}",
            meaning,
        )
    return table


def render_statistics(table: pl.DataFrame) -> RenderableType:
    """One line per measure: mean, percentiles and the human mean; `table` as `store.statistics.STATISTICS`."""
    if not table.height:
        return Text("No calls to measure.", QUIET)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown.add_column("measure", no_wrap=True)
    shown.add_column("unit", style=QUIET, no_wrap=True)
    for name in ("count", "mean", "p10", "median", "p90", "human"):
        shown.add_column(name, justify="right", no_wrap=True)
    origin = None
    for row in table.iter_rows(named=True):
        if row["origin"] != origin:
            origin = row["origin"]
            shown.add_section()
            shown.add_row(_cell(f"origin {origin}", "bold"))
        numbers = [_number(row[name]) for name in ("mean", "p10", "p50", "p90", "human")]
        shown.add_row(row["measure"], row["unit"], f"{row['count']:,} {row['over']}", *numbers)
    note = "Speech is detected by level, in steps of 10 ms. Human figures: Fisher, and the mean gap over ten languages."
    return Group(shown, Text(note, QUIET))


def render_outliers(scores: pl.DataFrame, *, most: int = 10) -> RenderableType:
    """The calls of a table of scores that lie farthest from all others, with the words that cost most."""
    table = _table(*OUTLIER_COLUMNS)
    for row in outlier_rows(scores, most):
        table.add_row(*map(_cell, row))
    return Group(Text("outliers", style="bold"), table)


def outlier_rows(scores: pl.DataFrame, most: int) -> Iterator[tuple[str, ...]]:
    """The cells below OUTLIER_COLUMNS, farthest first."""
    for row in outliers(scores, most).iter_rows(named=True):
        names = ("bits_per_byte", "agent_bits_per_byte", "caller_bits_per_byte")
        bits = ["–" if row[name] is None else f"{row[name]:.2f}" for name in names]
        yield (
            row["call_id"],
            f"{row['deviation']:+.1f}",
            *bits,
            " ".join(costly_words(scores, row["call_id"])),
        )


def percent(fraction: float | None) -> str:
    """A fraction as a person reads it."""
    return "–" if fraction is None else f"{fraction:.1%}"


def byte_count(count: int) -> str:
    """Bytes with a binary unit."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:,.0f} {units[0]}" if units[0] == "B" else f"{size:,.1f} {units[0]}"


def summary_facts(summary: StoreSummary) -> list[tuple[str, str]]:
    """The counts as (name, value), in reading order; the page and the terminal show the same."""
    facts = [
        ("calls", f"{summary.calls:,}" + (f", {summary.refused:,} refused" if summary.refused else "")),
        ("audio", f"{summary.hours:,.3f} h in {summary.frames:,} frames"),
        ("families", f"{summary.families:,}"),
        ("recordings", f"{summary.recordings:,} with {counted(summary.tokens, 'token')}"),
        ("prefixes", f"{summary.prefixes:,}"),
        ("text stream", f"{percent(summary.pad_fraction)} PAD and EPAD"),
        ("words", f"{summary.words:,}"),
        (
            "dropped",
            f"{counted(summary.words_dropped, 'word')}, {counted(summary.pieces_dropped, 'piece')} of others",
        ),
    ]
    if summary.words_dropped_by_rule:
        facts.append(("by rule", _rules(summary)))
    if summary.bytes_by_part:
        parts = ", ".join(f"{name} {byte_count(size)}" for name, size in summary.bytes_by_part.items())
        facts.append(("on disk", f"{byte_count(sum(summary.bytes_by_part.values()))} ({parts})"))
    return facts + list(summary.facts.items())


def _rules(summary: StoreSummary) -> str:
    """How many words each rule of the transcript cost, and how many the text stream had no frame for."""
    rules = dict(summary.words_dropped_by_rule)
    unplaced = summary.words_dropped - sum(rules.values())
    rules |= {"without a frame": unplaced} if unplaced > 0 else {}
    return ", ".join(f"{rule} {count:,}" for rule, count in rules.items())


def _counts(summary: StoreSummary) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=QUIET, no_wrap=True)
    grid.add_column()
    for name, value in summary_facts(summary):
        grid.add_row(Text(name), _cell(value))
    return grid


def split_rows(summary: StoreSummary) -> Iterator[tuple[str | None, str, str, str, str]]:
    """The cells of one split under `SPLIT_COLUMNS`; the page and the terminal show the same."""
    for row in summary.splits.iter_rows(named=True):
        counts = (
            f"{row['calls']:,}",
            f"{row['families']:,}",
            f"{row['hours']:,.3f}",
            f"{row['with_memory']:,}",
        )
        yield row["split"], *counts


def _splits(summary: StoreSummary) -> Table:
    table = _table(*SPLIT_COLUMNS)
    for split, *counts in split_rows(summary):
        table.add_row(_cell(split), *counts)
    return table


def group_rows(summary: StoreSummary) -> Iterator[tuple[str, str, str, str, str]]:
    """The cells of one group under `GROUP_COLUMNS`; the page and the terminal show the same."""
    for row in summary.groups.iter_rows(named=True):
        yield row["by"], row["group"], f"{row['calls']:,}", f"{row['families']:,}", f"{row['hours']:,.3f}"


def _groups(summary: StoreSummary) -> Table:
    table = _table(*GROUP_COLUMNS)
    for by, group, *counts in group_rows(summary):
        table.add_row(by, _cell(group), *counts)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _cell(text: str | None, style: str = "") -> Text:
    """The user's own text: never read as markup."""
    return Text("–", QUIET) if text is None else Text(plain(text), style)


def _table(*columns: str) -> Table:
    """A table without side borders; columns named with # hold numbers, aligned right."""
    table = Table(
        box=box.SIMPLE_HEAD, header_style=QUIET, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0)
    )
    for name in columns:
        number = name.startswith("#")
        table.add_column(
            name.removeprefix("#"), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    return table
