"""Calls through the model with the right answers given: the step that training and scoring share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from inkplex_data.grid import NO_INPUT
from inkplex_data.trainer.memory.connector import CallMemory, ConnectedLM, ReadStrength
from inkplex_data.trainer.memory.text_features import text_features
from inkplex_data.trainer.model.personaplex import LMOutput
from inkplex_data.trainer.run.objective import LossSums, ObjectiveWeights, voice_and_text_loss
from inkplex_data.trainer.run.processes.ranks import Ranks

if TYPE_CHECKING:
    from inkplex_data.loader import Batch

Value = TypeVar("Value")


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
    """Loss sums of one window, and how much its readers added.

    Gradients reach whatever trains, where gradients are on.
    """
    memory = None if model.memory is None else batch_memory(batch, model.text_table())
    chunks = batch.chunks if memory is not None else None
    out, strength = model(batch.inputs[None], memory, chunks=chunks, recompute=recompute)
    return _loss(model, [batch], out, weights), strength


def teacher_forced_together(
    model: ConnectedLM, batches: Sequence[Batch], weights: ObjectiveWeights, *, recompute: bool = False
) -> LossSums:
    """Loss sums of several windows in one forward, without memory.

    Shorter ones are filled up with frames of no input behind their end, which no earlier frame sees and which carry no
    loss: the sums are those of the windows one at a time, up to rounding.
    """
    inputs = _filled([batch.inputs for batch in batches], NO_INPUT)
    out, _ = model(inputs, None, recompute=recompute)
    return _loss(model, batches, out, weights)


def idle(model: ConnectedLM, weights: ObjectiveWeights, *, recompute: bool = False) -> LossSums:
    """The loss sums of no window at all, 0 with gradients of 0: a rank's part in the forward of others where a model is
    divided among them."""
    config, device = model.lm.config, model.lm.device
    codes = torch.full((1, config.streams, 1), NO_INPUT, device=device)
    out, _ = model(codes, None, recompute=recompute)
    nothing = torch.zeros(1, dtype=torch.long, device=device)
    return voice_and_text_loss(
        out.text_logits, out.logits, codes, nothing[None], nothing, delays=config.delays, weights=weights
    )


def in_step(items: Iterable[Value], ranks: Ranks) -> Iterator[Value | None]:
    """This rank's items, then None until every rank is through its own: each is taken by all ranks together."""
    source = iter(items)
    while True:
        item = next(source, None)
        if not ranks.any(item is not None):
            return
        yield item


def together(batches: Iterable[Batch], forward_frames: int | None) -> Iterator[list[Batch]]:
    """Windows in order, as many together as fit: their number times the longest is at most `forward_frames`.

    A window that is longer stands alone; None leaves all of them alone.
    """
    held: list[Batch] = []
    for batch in batches:
        longest = max([batch.frames, *(other.frames for other in held)])
        if held and (forward_frames is None or longest * (len(held) + 1) > forward_frames):
            yield held
            held = []
        held.append(batch)
    if held:
        yield held


def _loss(model: ConnectedLM, batches: Sequence[Batch], out: LMOutput, weights: ObjectiveWeights) -> LossSums:
    return voice_and_text_loss(
        out.text_logits,
        out.logits,
        _filled([batch.codes for batch in batches], NO_INPUT),
        _filled([batch.roles for batch in batches], 0),
        torch.tensor([batch.frames for batch in batches], device=out.logits.device),
        mask=_filled([batch.mask for batch in batches], 0),
        delays=model.lm.config.delays,
        weights=weights,
    )


def _filled(parts: Sequence[Tensor], value: int) -> Tensor:
    """Tensors [..., T] of several lengths as one [B, ..., longest]."""
    longest = max(part.shape[-1] for part in parts)
    return torch.stack([F.pad(part, (0, longest - part.shape[-1]), value=value) for part in parts])
