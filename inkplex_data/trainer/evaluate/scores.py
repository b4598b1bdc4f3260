"""Teacher-forced losses of calls under several memories, and what they say: pure functions on tables.

The deciding measure is loss on the first piece of each word; later pieces, padding, and the voices are
reported beside it (seeds/000, "Current sequence memory", section 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES, Difference, paired_difference
from inkplex_data.trainer.run.objective import PARTS, ObjectiveWeights

MEMORIES = ("none", "own", "wrong")
"""No memory (the baseline), the call's own, and that of another task."""

MEASURES: Mapping[str, tuple[str, ...]] = {
    "first piece": ("text/first_piece",),
    "later piece": ("text/later_piece",),
    "padding": ("text/pad", "text/epad"),
    "end of padding": ("text/epad",),
    "agent semantic": ("agent/semantic",),
    "agent acoustic": ("agent/acoustic",),
    "caller semantic": ("caller/semantic",),
    "caller acoustic": ("caller/acoustic",),
}
"""What is reported, and the parts of the objective in it. Padding counts both of its ids."""

SCORES: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "family": pl.String(),
    "memory": pl.String(),
    "part": pl.String(),
    "loss_sum": pl.Float64(),
    "targets": pl.Int64(),
}
"""One row for each call, memory and part: nats summed over targets, unweighted."""

SUMMARY: dict[str, pl.DataType] = {
    "measure": pl.String(),
    "targets": pl.Int64(),
    "baseline": pl.Float64(),
    "own": pl.Float64(),
    "wrong": pl.Float64(),
    "baseline_minus_own": pl.Float64(),
    "baseline_minus_own_lower": pl.Float64(),
    "wrong_minus_own": pl.Float64(),
    "wrong_minus_own_lower": pl.Float64(),
    "families": pl.Int64(),
}
"""Mean losses in nats per target, and differences with their one-sided 95% lower bounds. All of a row are of calls
that were scored with their own memory, if any were."""


def score_rows(
    call_id: str, family: str, memory: str, sums: Sequence[float], counts: Sequence[int]
) -> list[tuple[str, str, str, str, float, int]]:
    """Rows of `SCORES` for one call; sums and counts in the order of `objective.PARTS`."""
    return [
        (call_id, family, memory, part, loss, count)
        for part, loss, count in zip(PARTS, sums, counts, strict=True)
    ]


def loss_of(scores: pl.DataFrame, measure: str, memory: str) -> float | None:
    """Mean loss per target in nats; None without a target."""
    chosen = scores.filter(pl.col("memory") == memory, pl.col("part").is_in(MEASURES[measure]))
    targets = int(chosen["targets"].sum())
    return float(chosen["loss_sum"].sum()) / targets if targets else None


def objective_loss(scores: pl.DataFrame, memory: str, weights: ObjectiveWeights) -> float:
    """The loss of an objective, text and voice, over all calls scored under `memory`."""
    table = pl.DataFrame({"part": PARTS, "weight": weights.by_part()})
    rows = scores.filter(pl.col("memory") == memory).join(table, on="part")
    total = 0.0
    for text in (True, False):
        chosen = rows.filter(pl.col("part").str.starts_with("text/") == text)
        bottom = float((chosen["weight"] * chosen["targets"]).sum())
        total += float((chosen["weight"] * chosen["loss_sum"]).sum()) / bottom if bottom else 0.0
    return total


def compare(
    scores: pl.DataFrame,
    measure: str,
    first: str,
    second: str,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference | None:
    """Loss under memory `first` minus loss under `second` on the calls that have both; None without a target."""
    parts = scores.filter(pl.col("part").is_in(MEASURES[measure]))
    calls = parts.group_by("call_id", "family", "memory").agg(pl.col("loss_sum", "targets").sum())
    both = (
        calls.filter(pl.col("memory") == first)
        .join(calls.filter(pl.col("memory") == second), on=("call_id", "family"), suffix="_second")
        .sort("call_id")
    )
    return paired_difference(
        both["loss_sum"].to_numpy(),
        both["loss_sum_second"].to_numpy(),
        both["targets"].to_numpy(),
        both["family"].to_list(),
        resamples=resamples,
        seed=seed,
    )


def summarise(scores: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """`SUMMARY`, one row for each measure; columns of memories that were not scored are null."""
    rows = []
    own_calls = scores.filter(pl.col("memory") == "own")["call_id"].unique()
    if len(own_calls):  # Calls without a memory would make the baseline one of other calls.
        scores = scores.filter(pl.col("call_id").is_in(own_calls.to_list()))
    for measure, parts in MEASURES.items():
        own = compare(scores, measure, "none", "own", resamples=resamples, seed=seed)
        wrong = compare(scores, measure, "wrong", "own", resamples=resamples, seed=seed)
        counted = scores.filter(pl.col("part").is_in(parts)).group_by("memory").agg(pl.col("targets").sum())
        rows.append(
            {
                "measure": measure,
                "targets": counted["targets"].max() or 0,
                "baseline": loss_of(scores, measure, "none"),
                "own": loss_of(scores, measure, "own"),
                "wrong": loss_of(scores, measure, "wrong"),
                "baseline_minus_own": own.value if own else None,
                "baseline_minus_own_lower": own.lower if own else None,
                "wrong_minus_own": wrong.value if wrong else None,
                "wrong_minus_own_lower": wrong.lower if wrong else None,
                "families": max(own.families if own else 0, wrong.families if wrong else 0),
            }
        )
    return pl.DataFrame(rows, schema=SUMMARY)


def summary_text(summary: pl.DataFrame) -> str:
    """The summary as an aligned table for a terminal."""
    head = ("nats per target", "targets", "no memory", "own", "wrong", "none − own (≥)", "wrong − own (≥)")
    lines = [head]
    for row in summary.iter_rows(named=True):
        lines.append(
            (
                row["measure"],
                f"{row['targets']:,}",
                _number(row["baseline"]),
                _number(row["own"]),
                _number(row["wrong"]),
                _bounded(row["baseline_minus_own"], row["baseline_minus_own_lower"]),
                _bounded(row["wrong_minus_own"], row["wrong_minus_own_lower"]),
            )
        )
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text: the first column to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _bounded(value: float | None, lower: float | None) -> str:
    return "–" if value is None else f"{value:+.4f} ({'–' if lower is None else f'{lower:+.4f}'})"
