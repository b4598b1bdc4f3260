"""Distributions as small SVG charts, each beside the figure of human conversations where a source gives one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from inkplex_data.report.svg import html_text
from inkplex_data.store.statistics import Measured

if TYPE_CHECKING:
    from inkplex_data.report.view import CallView

BINS: Final = 24
WIDTH: Final = 300
HEIGHT: Final = 96
_BAR_PX: Final = WIDTH / BINS
_SHOWN: Final = (0.01, 0.99)
"""Quantiles at which the axis ends; what lies beyond counts in the outermost bars."""


def histograms(measures: Iterable[Measured]) -> str:
    """A grid of charts, HTML. A measure of a single value is a number, and no distribution."""
    cards = "".join(_card(one) for one in measures if len(one.values) > 1)
    return f'<div class="charts">{cards}</div>\n' if cards else "<p>Too few calls.</p>\n"


class DrawnMeasures:
    """What only the calls themselves tell: how loud each side speaks, and how much memory is live when the call ends."""

    def __init__(self) -> None:
        self._loud: dict[str, list[float]] = {"agent": [], "caller": []}
        self._live: list[float] = []

    def add(self, view: CallView) -> None:
        """Take in one call."""
        for side, level in (("agent", view.agent_db), ("caller", view.caller_db)):
            if level is not None and len(level):
                self._loud[side].append(float(np.quantile(level, 0.95)))
        if view.memory is not None and view.frames:
            self._live.append(float(view.memory.live[-1]))

    def measured(self) -> Iterator[Measured]:
        """The measures of all calls so far. A side is as loud as the loudest twentieth of its frames begins."""
        for side, values in self._loud.items():
            yield _of_drawn(f"{side} loudness", "dBFS", values)
        yield _of_drawn("live memory at the end", "tokens", self._live)


def _of_drawn(measure: str, unit: str, values: list[float]) -> Measured:
    return Measured(measure, unit, "calls", pl.Series(values, dtype=pl.Float64), None)


def _card(one: Measured) -> str:
    values = one.values.to_numpy()
    low, high = (float(edge) for edge in np.quantile(values, _SHOWN))
    if one.human is not None:
        low, high = min(low, one.human), max(high, one.human)
    if high <= low:
        high = low + 1
    counts, edges = np.histogram(np.clip(values, low, high), BINS, (low, high))
    bars = "".join(
        f'<rect x="{place * _BAR_PX:.1f}" y="{HEIGHT * (1 - count / counts.max()):.1f}" width="{_BAR_PX - 1:.1f}" '
        f'height="{HEIGHT * count / counts.max():.1f}" class="fill-agent">'
        f"<title>{_number(edges[place])} to {_number(edges[place + 1])} {html_text(one.unit)}: {count:,}</title></rect>"
        for place, count in enumerate(counts.tolist())
        if count
    )
    middle = float(np.median(values))
    facts = f"median {_number(middle)}"
    if one.human is not None:
        x = (one.human - low) / (high - low) * WIDTH
        bars += f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" class="mark"/>'
        facts += f' · <span class="good">people {_number(one.human)}</span>'
    name = html_text(one.measure)
    return (
        f'<figure class="chart"><figcaption><b>{name}</b> <span class="dim">{html_text(one.unit)}, '
        f"{len(values):,} {html_text(one.over)}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" preserveAspectRatio="none" aria-label="{name}">{bars}</svg>'
        f'<div class="ends"><span>{_number(low)}</span><span>{facts}</span><span>{_number(high)}</span></div></figure>'
    )


def _number(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
