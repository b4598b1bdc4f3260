"""How likely the words are that carry a value out of evidence, before and after it has arrived, with forced history.

Losses on words that carry a fact are told apart from those on other first pieces, later pieces and padding, under the call's own
memory, another task's, none, and its own with the result delayed past the call's end of waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import MASK_ALL, TAG_EPAD, TAG_FIRST, TAG_LATER, TAG_PAD
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES, paired_difference
from inkplex_data.trainer.evaluate.replay import ReplayPlan, call_memory
from inkplex_data.trainer.grounding.cases import Case, agent_words
from inkplex_data.trainer.grounding.claims.claim_verdicts import judge
from inkplex_data.trainer.grounding.runs import branch_memory
from inkplex_data.trainer.memory.connector import CallMemory, ConnectedLM

Memory = Literal["own", "wrong", "none", "delayed"]
MEMORIES: tuple[Memory, ...] = ("own", "wrong", "none", "delayed")
PLACES = ("fact word, after arrival", "fact word, before arrival", "first piece", "later piece", "padding")
TEXT_BIT = 1

FACT_LOSSES: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "family": pl.String(),
    "memory": pl.String(),
    "place": pl.String(),
    "loss_sum": pl.Float64(),
    "targets": pl.Int64(),
}
"""One row for each call, memory and place: nats summed over targets of the text stream."""

FACT_LOSS: dict[str, pl.DataType] = {
    "place": pl.String(),
    "targets": pl.Int64(),
    **{memory: pl.Float64() for memory in MEMORIES},
    **{f"{memory}_minus_own_lower": pl.Float64() for memory in MEMORIES[1:]},
}
"""Mean nats per target, and the one-sided 95% lower bound of what each memory loses against the call's own."""


@torch.no_grad()
def fact_losses(model: ConnectedLM, cases: Iterable[Case], *, window: int) -> pl.DataFrame:
    """`FACT_LOSSES` of the calls of cases. Calls longer than the model's context are left out."""
    rows: list[tuple[object, ...]] = []
    for case in cases:
        composed = case.call.with_prefix()
        if composed.frames > model.lm.config.context:
            continue
        device = model.lm.text_emb.weight.device
        text = torch.from_numpy(composed.text).long()[None]
        codes = torch.cat([text, torch.from_numpy(composed.codes.astype("int64"))])[None].to(device)
        place = places(case, composed.prefix_frames)
        for memory, remembered in _memories(model, case, composed.prefix_frames, composed.frames, window):
            out, _ = model(codes, remembered)
            losses = (
                F.cross_entropy(out.text_logits[0, 0].float(), codes[0, 0], reduction="none").cpu().numpy()
            )
            for index, name in enumerate(PLACES):
                own = place == index
                rows.append(
                    (case.call.call_id, case.family, memory, name, float(losses[own].sum()), int(own.sum()))
                )
    return pl.DataFrame(rows, schema=FACT_LOSSES, orient="row")


def places(case: Case, prefix_frames: int) -> NDArray[np.int64]:
    """Index into `PLACES` of each composed frame, −1 without a text target."""
    call = case.call
    out = np.full(prefix_frames + call.frames, -1)
    tags, mask = call.role, call.mask
    for tag, index in ((TAG_FIRST, 2), (TAG_LATER, 3), (TAG_PAD, 4), (TAG_EPAD, 4)):
        out[prefix_frames:][tags == tag] = index
    out[prefix_frames:][(mask & TEXT_BIT & MASK_ALL) == 0] = -1
    items = case.branches[0].items
    results = {item.id: item for item in items if not item.given}
    own = call.words.filter(pl.col("frame") >= 0).sort("start_us")
    said = agent_words(call)
    for claim in judge(said, items):
        item = results.get(claim.event or "")
        if item is None or claim.verdict not in ("supported", "premature"):
            continue
        for row in own[claim.first : claim.last + 1].iter_rows(named=True):
            for frame in range(row["frame"], min(row["frame"] + row["placed"], call.frames)):
                if out[prefix_frames + frame] in (2, 3):
                    out[prefix_frames + frame] = 0 if frame * FRAME_US >= item.arrival_us else 1
    return out


def _memories(
    model: ConnectedLM, case: Case, prefix_frames: int, steps: int, window: int
) -> Iterator[tuple[Memory, CallMemory | None]]:
    yield "none", None
    if model.memory is None:
        return
    plan = ReplayPlan(prefix_frames, 0, 0, steps - prefix_frames, 0)
    table = model.lm.text_emb.weight
    for branch in case.branches:
        if branch.kind == "unchanged":
            yield "own", branch_memory(case, branch, plan, text_table=table, window=window)
        elif branch.kind == "delayed" and branch.derived:
            yield "delayed", branch_memory(case, branch, plan, text_table=table, window=window)
    if case.call.row["wrong_memory_of"] is not None:
        yield (
            "wrong",
            call_memory(
                case.call.wrong_memory(),
                prefix_frames=prefix_frames,
                first=0,
                steps=steps,
                text_table=table,
                window=window,
            ),
        )


def summarise_fact_losses(losses: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """`FACT_LOSS`, one row for each place that has a target."""
    rows = []
    for name in PLACES:
        here = losses.filter(place=name)
        own = here.filter(memory="own")
        # As many under each memory; of a model without memory, under none alone.
        targets = (
            max(int(some["targets"].sum()) for (_,), some in here.group_by("memory")) if here.height else 0
        )
        row: dict[str, object] = {"place": name, "targets": targets}
        for memory in MEMORIES:
            some = here.filter(memory=memory)
            count = int(some["targets"].sum())
            row[memory] = float(some["loss_sum"].sum()) / count if count else None
            if memory == "own":
                continue
            both = own.join(some, on="call_id", suffix="_other", maintain_order="left")
            gain = paired_difference(
                both["loss_sum_other"],
                both["loss_sum"],
                both["targets"],
                both["family"].to_list(),
                resamples=resamples,
                seed=seed,
            )
            row[f"{memory}_minus_own_lower"] = None if gain is None else gain.lower
        rows.append(row)
    return pl.DataFrame(rows, schema=FACT_LOSS).filter(pl.col("targets") > 0)
