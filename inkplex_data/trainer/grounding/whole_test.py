"""The decisive test as one step: every table of it, the sound, and the page for a reviewer."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import polars as pl

from inkplex_data.report.grounding_page import CASES, write_grounding_page
from inkplex_data.trainer.evaluate.generate import Generator
from inkplex_data.trainer.grounding.cases import cases_of
from inkplex_data.trainer.grounding.fact_loss import fact_losses, summarise_fact_losses
from inkplex_data.trainer.grounding.ground import ground, write_grounding
from inkplex_data.trainer.grounding.interruption import interruptions
from inkplex_data.trainer.grounding.listen import Listener
from inkplex_data.trainer.grounding.reviewed import agreement, agreement_text, read_verdicts
from inkplex_data.trainer.grounding.runs import CaseRunner

PAGE = "review.html"


def ground_run(
    generator: Generator,
    out: Path,
    *,
    split: str,
    calls: Collection[str] | None,
    limit: int | None,
    resamples: int,
    seed: int,
    listen: str | None,
    reviewed: Path | None,
    about: dict[str, Any],
) -> str:
    """Write all of it under `out`, the page last; returns what is printed. `listen`: the Whisper model that hears the runs,
    None for text alone; `reviewed`: a reviewer's verdicts. Raises UsageError and OutputError."""
    verdicts = None if reviewed is None else read_verdicts(reviewed)  # before hours of work
    ear = None if listen is None else Listener(generator, out / "audio", listen)
    found = ground(
        generator,
        split=split,
        calls=calls,
        limit=limit,
        resamples=resamples,
        seed=seed,
        keep=None if ear is None else ear.keep,
    )
    store = generator.store
    judged = found.runs["call_id"].unique().to_list()
    losses = fact_losses(generator.trained.model, cases_of(store, split, calls=judged), window=store.window)
    more: dict[str, pl.DataFrame] = {
        "fact_loss": summarise_fact_losses(losses, resamples=resamples, seed=seed)
    }
    if generator.trained.model.memory is not None:
        more["interruptions"] = interruptions(CaseRunner(generator), cases_of(store, split, calls=judged))
    lines = [found.text()]
    if ear is not None:
        more["heard"] = ear.summary()
    if verdicts is not None:
        more["agreement"] = agreement(found.claims, verdicts)
        lines.append(agreement_text(more["agreement"], verdicts.height))
    write_grounding(out, found, about=about, more=more, sounds=ear.files if ear is not None else ())
    lines.append(f"page: {write_grounding_page(out / CASES, out / PAGE)}")
    return "\n".join(lines)
