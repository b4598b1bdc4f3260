"""One call through the model with the right answers given: the step that training and scoring share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from inkplex_data.trainer.memory.connector import CallMemory, ConnectedLM, ReadStrength
from inkplex_data.trainer.memory.text_features import text_features
from inkplex_data.trainer.run.objective import LossSums, ObjectiveWeights, voice_and_text_loss

if TYPE_CHECKING:
    from inkplex_data.loader import Batch


def batch_memory(batch: Batch, text_table: Tensor) -> CallMemory | None:
    """The memory of a batch, on its device; None where it has none.

    text_table: the frozen text embedding [C, E] that lexical features are means of.
    """
    if batch.states is None:
        return None
    return CallMemory(
        states=batch.states,
        text_features=text_features(batch.piece_offsets, batch.piece_ids, text_table),
        kind=batch.kind,
        row=batch.row,
        start=batch.start,
        end=batch.end,
        recency=batch.recency,
        age=batch.age,
        whole=batch.whole,
    )


def teacher_forced(
    model: ConnectedLM,
    batch: Batch,
    weights: ObjectiveWeights,
    *,
    recompute: bool = False,
) -> tuple[LossSums, ReadStrength | None]:
    """Loss sums of one batch, and how much its readers added.

    Gradients reach writer and readers where they train and gradients are on.
    """
    memory = batch_memory(batch, model.lm.text_emb.weight)
    codes, roles, mask = batch.codes[None], batch.roles[None], batch.mask[None]
    out, strength = model(
        batch.inputs[None], memory, chunks=batch.chunks if memory is not None else None, recompute=recompute
    )
    sums = voice_and_text_loss(
        out.text_logits,
        out.logits,
        codes,
        roles,
        torch.tensor([batch.frames], device=codes.device),
        mask=mask,
        delays=model.lm.config.delays,
        weights=weights,
    )
    return sums, strength
