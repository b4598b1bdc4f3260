"""The statistics of a store for the terminal."""

from __future__ import annotations

import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

QUIET = "bright_black"


def render_statistics(table: pl.DataFrame) -> RenderableType:
    """One line per measure: mean, percentiles and the human mean; `table` as `store.statistics.STATISTICS`."""
    if not table.height:
        return Text("No calls to measure.", QUIET)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown.add_column("measure", no_wrap=True)
    shown.add_column("unit", style=QUIET, no_wrap=True)
    for name in ("count", "mean", "p10", "median", "p90", "human"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in table.iter_rows(named=True):
        numbers = [_number(row[name]) for name in ("mean", "p10", "p50", "p90", "human")]
        shown.add_row(row["measure"], row["unit"], f"{row['count']:,} {row['over']}", *numbers)
    note = "Speech is detected by level, in steps of 10 ms. Human figures: Fisher, and the mean gap over ten languages."
    return Group(shown, Text(note, QUIET))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
