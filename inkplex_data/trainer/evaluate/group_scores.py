"""Losses of calls told apart by what is known of them: origin of their sound, decision, status and writer of targets."""

from __future__ import annotations

import polars as pl

from inkplex_data.store.call_groups import GROUPINGS, call_groups
from inkplex_data.trainer.evaluate.scores import MEASURES, MEMORIES, aligned, loss_of

GROUP_SCORES: dict[str, pl.DataType] = {
    "by": pl.String(),
    "group": pl.String(),
    "measure": pl.String(),
    "calls": pl.Int64(),
    "families": pl.Int64(),
    **dict.fromkeys(MEMORIES, pl.Float64()),
}
"""One row for each group and measure: mean losses in nats per target under each memory, null where none was scored."""


def group_scores(scores: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """`GROUP_SCORES` of `scores.SCORES`; `calls` as `call_groups` takes them. No row where nothing is known of a call."""
    rows = []
    for by in GROUPINGS:
        for (group,), members in call_groups(calls, by).group_by("group", maintain_order=True):
            own = scores.join(members, on="call_id", how="semi")
            if not own.height:
                continue
            counts = (own["call_id"].n_unique(), own["family"].n_unique())
            for measure in MEASURES:
                losses = [loss_of(own, measure, memory) for memory in MEMORIES]
                rows.append((by, group, measure, *counts, *losses))
    return pl.DataFrame(rows, schema=GROUP_SCORES, orient="row")


def group_text(groups: pl.DataFrame) -> str:
    """Losses on first pieces, the deciding measure, as an aligned table for a terminal; empty without groups."""
    lines: list[tuple[str, ...]] = [("first pieces of", "calls", *MEMORIES)]
    for row in groups.filter(measure="first piece").iter_rows(named=True):
        losses = ("–" if row[memory] is None else f"{row[memory]:.4f}" for memory in MEMORIES)
        lines.append((f"{row['by']} {row['group']}", f"{row['calls']:,}", *losses))
    return aligned(lines) if len(lines) > 1 else ""
