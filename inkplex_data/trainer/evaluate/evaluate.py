"""Evaluation of a checkpoint on a split: teacher-forced losses with no, own and wrong memory, and twins.

OUT/scores.parquet   OUT/summary.parquet   OUT/groups.parquet   OUT/twins.parquet   OUT/evaluation.json
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from inkplex_data.atomic import json_bytes, together
from inkplex_data.errors import UsageError
from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.store.call_groups import GROUPINGS, TOLD, call_groups
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES
from inkplex_data.trainer.evaluate.generate import summarise_generations
from inkplex_data.trainer.evaluate.group_scores import group_scores, group_text
from inkplex_data.trainer.evaluate.scores import MEMORIES, summarise, summary_text
from inkplex_data.trainer.evaluate.scoring import scorable, score_calls
from inkplex_data.trainer.evaluate.twin_scores import (
    TWIN_SCORES,
    score_twins,
    summarise_twins,
    twin_pairs,
)
from inkplex_data.trainer.run.run_files import TrainedModel

SCHEMA = "inkplex/evaluation@1"


@dataclass(frozen=True)
class Evaluation:
    """scores: `scores.SCORES`; summary: `scores.SUMMARY`; groups: `group_scores.GROUP_SCORES`, of calls
    about which `told` says something; twins: `twin_scores.TWIN_SCORES`, and their summary."""

    scores: pl.DataFrame
    summary: pl.DataFrame
    groups: pl.DataFrame
    twins: pl.DataFrame
    twin_summary: dict[str, Any]
    told: pl.DataFrame

    def text(self) -> str:
        """The tables for a terminal."""
        lines = [summary_text(self.summary)]
        lines.append("lower bounds are one-sided 95%, from a paired bootstrap over families")
        lines += filter(None, [group_text(self.groups)])
        if self.twins.height:
            found = self.twin_summary
            bound = "unknown" if found["gain_lower"] is None else f"{found['gain_lower']:+.4f}"
            lines.append(
                f"{found['pairs']} pairs of twins: {found['right']:.0%} right; first pieces are "
                f"{found['gain']:+.4f} nats likelier with their own memory (lower bound {bound})"
            )
        if self.twin_summary["left_out"]:
            lines.append(
                f"{self.twin_summary['left_out']} pairs of twins are left out: longer than the model's context, or "
                "without a first piece after the fork"
            )
        return "\n".join(lines)


def evaluate(
    trained: TrainedModel,
    store: Store,
    *,
    split: str = "validation",
    calls: Sequence[str] | None = None,
    memories: Sequence[str] = MEMORIES,
    prefix: str = OWN,
    resamples: int = RESAMPLES,
    seed: int = 0,
    advance: Callable[[], None] | None = None,
) -> Evaluation:
    """Score every call of a split, or `calls` of it, and its twins, behind `prefix` (`loader.prefix_choice`).

    Raises UsageError for calls that are not in the split, and where none can be scored.
    """
    if calls is not None and (lacking := sorted(set(calls) - set(scorable(store, split, "none")))):
        raise UsageError(
            f"{len(lacking)} calls are not in split {split!r}: {', '.join(map(repr, lacking[:5]))}",
            where=store.root,
        )
    if not any(scorable(store, split, memory, calls) for memory in memories):
        raise UsageError(
            f"no call of split {split!r} can be scored with {' or '.join(memories)} memory",
            where=store.root,
            next_step="Choose calls that have it: own memory needs a recording with states, wrong memory also a "
            "partner, which validation and test calls have.",
        )
    scores = score_calls(
        trained.model,
        store,
        split=split,
        calls=calls,
        memories=memories,
        window_frames=trained.recipe.data.longest_frames,
        prefix=prefix,
        advance=advance,
    )
    if trained.model.memory is None:  # Twins differ in what is remembered alone.
        pairs, left_out = pl.DataFrame(schema=TWIN_SCORES), 0
    else:
        pairs = score_twins(trained.model, store, split=split, calls=calls, prefix=prefix)
        left_out = twin_pairs(store, split, calls).height - pairs.height
    told = store.calls().select("call_id", *TOLD).collect()
    return Evaluation(
        scores=scores,
        summary=summarise(scores, resamples=resamples, seed=seed),
        groups=group_scores(scores, told),
        twins=pairs,
        twin_summary=summarise_twins(pairs, left_out=left_out, resamples=resamples, seed=seed),
        told=told,
    )


def write_evaluation(
    out: Path, found: Evaluation, *, about: dict[str, Any], generations: pl.DataFrame | None = None
) -> dict[str, Any]:
    """Write tables as Parquet and everything small as JSON, which is returned and appears last. `about`: what was
    evaluated, as JSON values. Raises OutputError."""
    tables = {
        "scores": found.scores,
        "summary": found.summary,
        "groups": found.groups,
        "twins": found.twins,
    }
    if generations is not None:
        tables["generations"] = generations
    body = {"schema": SCHEMA, **about, "summary": found.summary.to_dicts(), "twins": found.twin_summary}
    body["groups"] = found.groups.to_dicts()
    if generations is not None:
        body["generations"] = summarise_generations(generations)
        body["generation_groups"] = _generation_groups(generations, found.told)
    out.mkdir(parents=True, exist_ok=True)
    document = out / "evaluation.json"
    with together(last=document) as new:
        for name, table in tables.items():
            data = BytesIO()  # Polars, given the file, would hide why a write failed in an error of its own
            table.write_parquet(data)
            new(out / f"{name}.parquet").write(data.getbuffer())
        new(document).write(json_bytes(body, indent=1))
    return body


def _generation_groups(generations: pl.DataFrame, told: pl.DataFrame) -> list[dict[str, Any]]:
    spoken = told.join(generations, on="call_id", how="semi")
    return [
        {
            "by": by,
            "group": group,
            "generations": summarise_generations(generations.join(own, on="call_id", how="semi")),
        }
        for by in GROUPINGS
        for (group,), own in call_groups(spoken, by).group_by("group", maintain_order=True)
    ]
