"""Runs as rows, and what they say: rates with bounds over families, beside a floor and a ceiling. Pure.

The deciding measure is `both`: how likely it is that of a case a branch that has an answer and a branch that has none
are both right. Silence and constant answers get 0, since neither can be right in both; the oracle gets 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from inkplex_data.clock import US_PER_S
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES, Difference, paired_difference
from inkplex_data.trainer.evaluate.scores import aligned
from inkplex_data.trainer.grounding.claims.claim_verdicts import VERDICTS

TRAINED = "trained"
SYSTEMS = (TRAINED, "wrong memory", "no connector", "text in prompt", "constant", "silent", "oracle")
"""The model with its memory; with another task's; without readers; with the evidence as text in its role prompt and
without readers; the answer that is due most often; none; and what reads the evidence table."""

RUNS: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "family": pl.String(),
    "system": pl.String(),
    "kind": pl.String(),
    "branch": pl.String(),
    "status": pl.String(),
    "reason": pl.String(),
    "fork_us": pl.Int64(),
    "free_from_us": pl.Int64(),
    "ends_us": pl.Int64(),
    "due": pl.Int64(),
    "given": pl.Int64(),
    "answer": pl.String(),
    **{verdict: pl.Int64() for verdict in VERDICTS},
    "right": pl.Boolean(),
    "latency_us": pl.Int64(),
    "agrees": pl.Boolean(),
    "differs": pl.Boolean(),
    "words": pl.Int64(),
    "text": pl.String(),
}
"""One row for each branch of each case and each system. status: `said`, `silent`, `interrupted` (it still speaks as its
time ends), `invalid` (ids that are no codes) or `not attempted`, with the reason. Times count from the call's first
sample. agrees: nothing differs from the unchanged branch before the branch point; differs: what is said after it does."""

CLAIMS: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "system": pl.String(),
    "branch": pl.String(),
    "claim_ix": pl.Int64(),
    "text": pl.String(),
    "start_us": pl.Int64(),
    "kind": pl.String(),
    "verdict": pl.String(),
    "event": pl.String(),
    "denied": pl.Boolean(),
    "withdrawn": pl.Boolean(),
}
"""Every claim of every run, with the event that decides."""

SUMMARY: dict[str, pl.DataType] = {
    "system": pl.String(),
    "kind": pl.String(),
    "runs": pl.Int64(),
    "families": pl.Int64(),
    "right": pl.Float64(),
    "right_lower": pl.Float64(),
    "complete": pl.Float64(),
    "partial": pl.Float64(),
    "missing": pl.Float64(),
    **{verdict: pl.Float64() for verdict in VERDICTS},
    "differs": pl.Float64(),
    "latency_s": pl.Float64(),
    "trained_minus": pl.Float64(),
    "trained_minus_lower": pl.Float64(),
}
"""One row for each system and kind of branch, and one of kind `both`, the deciding measure. right, differs: shares of runs;
complete, partial, missing: shares of runs that have an answer due; verdicts: claims a run; latency: median. lower: one-sided 95%
bounds from a bootstrap over families; trained_minus: `right` of the trained model less that of the system, on the same runs."""


def summarise(runs: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """`SUMMARY` of `RUNS`; runs that were not attempted count as not right."""
    rows = []
    for system in [name for name in SYSTEMS if name in runs["system"].to_list()]:
        own = runs.filter(system=system)
        for kind in dict.fromkeys(own["kind"]):
            some = own.filter(kind=kind)
            trained = runs.filter(system=TRAINED, kind=kind)
            rows.append(
                _row(system, kind, some, _rates(some), _rates(trained), resamples=resamples, seed=seed)
            )
        rows.append(
            _row(
                system,
                "both",
                own,
                both_right(own),
                both_right(runs.filter(system=TRAINED)),
                resamples=resamples,
                seed=seed,
            )
        )
    return pl.DataFrame(rows, schema=SUMMARY)


def _rates(runs: pl.DataFrame) -> pl.DataFrame:
    """call_id, branch, family, value: whether each run is right."""
    return runs.select("call_id", "branch", "family", pl.col("right").cast(pl.Float64).alias("value"))


def both_right(runs: pl.DataFrame) -> pl.DataFrame:
    """call_id, branch (null), family, value: of each case, the share of right runs with an answer due times that without."""
    due = pl.col("due") > 0
    value = pl.col("right").filter(due).mean().fill_null(0) * pl.col("right").filter(~due).mean().fill_null(1)
    return (
        runs.group_by("call_id", "family", maintain_order=True)
        .agg(value.alias("value"))
        .select("call_id", pl.lit(None, pl.String).alias("branch"), "family", "value")
    )


def _row(
    system: str, kind: str, runs: pl.DataFrame, own: pl.DataFrame, trained: pl.DataFrame, **drawn: int
) -> dict[str, Any]:
    right = _difference(own, [0.0] * own.height, **drawn)
    both = trained.join(own, on=["call_id", "branch"], suffix="_own", nulls_equal=True, maintain_order="left")
    gain = None if system == TRAINED else _difference(both, both["value_own"].to_list(), **drawn)
    due = runs.filter(pl.col("due") > 0)
    shares = {
        name: None if not due.height else float((due["answer"] == name).sum()) / due.height
        for name in ("complete", "partial", "missing")
    }
    latency = runs["latency_us"].median()
    return {
        "system": system,
        "kind": kind,
        "runs": runs.height,
        "families": own["family"].n_unique(),
        "right": None if right is None else right.value,
        "right_lower": None if right is None else right.lower,
        **shares,
        **{verdict: float(runs[verdict].fill_null(0).sum()) / max(runs.height, 1) for verdict in VERDICTS},
        "differs": runs["differs"].cast(pl.Float64).mean(),
        "latency_s": None if latency is None else float(latency) / US_PER_S,  # type: ignore[arg-type]
        "trained_minus": None if gain is None else gain.value,
        "trained_minus_lower": None if gain is None else gain.lower,
    }


def _difference(rows: pl.DataFrame, others: list[float], **drawn: int) -> Difference | None:
    """Mean of `value` less that of `others`, with its bound over families."""
    return paired_difference(rows["value"], others, [1.0] * rows.height, rows["family"].to_list(), **drawn)


def failures(runs: pl.DataFrame) -> pl.DataFrame:
    """system, status, runs: how many runs of each system ended in which way; none is left out."""
    return runs.group_by("system", "status", maintain_order=True).agg(pl.len().cast(pl.Int64).alias("runs"))


HEAD = (
    "system",
    "branch",
    "runs",
    "right (≥)",
    "complete",
    "partial",
    "missing",
    *VERDICTS,
    "differs",
    "latency",
    "trained − it (≥)",
)


def summary_cells(summary: pl.DataFrame) -> list[tuple[str, ...]]:
    """The summary as cells, one tuple a row, in the order of `HEAD`."""
    return [
        (
            row["system"],
            row["kind"],
            str(row["runs"]),
            _bounded(row["right"], row["right_lower"], ".0%"),
            *(_share(row[name]) for name in ("complete", "partial", "missing")),
            *(f"{row[verdict]:.2f}" for verdict in VERDICTS),
            _share(row["differs"]),
            "–" if row["latency_s"] is None else f"{row['latency_s']:.2f} s",
            _bounded(row["trained_minus"], row["trained_minus_lower"], "+.0%"),
        )
        for row in summary.iter_rows(named=True)
    ]


def summary_text(summary: pl.DataFrame) -> str:
    """An aligned table for a terminal: the deciding measure of every system."""
    cells = [cells for cells in summary_cells(summary) if cells[1] == "both"]
    columns = (0, 2, 3, 4, 7, 8, 9, 10, 11, 13, 14)
    return aligned([[row[column] for column in columns] for row in [HEAD, *cells]])


def markdown(summary: pl.DataFrame) -> str:
    """The whole summary as a Markdown table."""
    rows = [HEAD, tuple("---" for _ in HEAD), *summary_cells(summary)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any cells as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _bounded(value: float | None, lower: float | None, form: str) -> str:
    if value is None:
        return "–"
    return f"{value:{form}} ({'–' if lower is None else f'{lower:{form}}'})"
