"""How long tokens took from one of their clocks to the next: source event, availability, delivery to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

STEPS: Final = {
    "event to available": ("source_us", "available_us"),
    "available to ready": ("available_us", "ready_us"),
}


@dataclass(frozen=True)
class Delay:
    """From one clock to the next, over the `tokens` that have both. `median_us` and `most_us` are negative where the
    later clock runs ahead: a token that was delivered before its source says that it was available."""

    name: str
    tokens: int
    median_us: int
    most_us: int

    def __str__(self) -> str:
        return f"{self.name} {self.median_us / 1e6:.3f} s (at most {self.most_us / 1e6:.3f} s)"


def clock_delays(tokens: pl.DataFrame) -> list[Delay]:
    """The delays of a recording's tokens (`memory.tables.TOKENS`); none of those that no token has both clocks of."""
    found = []
    for name, (first, then) in STEPS.items():
        taken_us = tokens.select(pl.col(then) - pl.col(first)).to_series().drop_nulls()
        if len(taken_us):
            middle = taken_us.quantile(0.5, "lower")
            found.append(Delay(name, len(taken_us), int(middle or 0), int(taken_us.max() or 0)))  # type: ignore[arg-type]
    return found
