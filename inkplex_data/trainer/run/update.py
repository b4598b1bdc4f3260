"""One optimiser update: the calls of a group, forward and backward one at a time or several together, divided once
by totals that every rank knows before its first forward (seeds/000, "Current sequence memory", section 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from inkplex_data.errors import InkplexError
from inkplex_data.trainer.memory.connector import ConnectedLM, ReadStrength
from inkplex_data.trainer.run.objective import (
    PARTS,
    LossSums,
    ObjectiveWeights,
    denominators,
    target_parts,
)
from inkplex_data.trainer.run.optimiser import OptimizerConfig
from inkplex_data.trainer.run.ranks import Ranks
from inkplex_data.trainer.run.teacher_forcing import (
    teacher_forced,
    teacher_forced_together,
    together,
)

if TYPE_CHECKING:
    from inkplex_data.loader import Batch, Group, Targets


class DivergedError(InkplexError, ArithmeticError):
    """A loss or a gradient is not finite; the last checkpoint is from before."""


@dataclass(frozen=True)
class UpdateResult:
    """What an update did, over all ranks. Losses are weighted means in nats; parts are unweighted means per
    target, None where there is none. read_strength: by reader, 0 where no call had memory."""

    loss: float
    text_loss: float
    voice_loss: float
    parts: dict[str, float | None]
    gradient_norm: float
    learning_rate: float
    read_strength: list[float]
    calls: int
    frames: int


@dataclass
class Updater:
    """Makes updates of a model; holds what does not change between them."""

    model: ConnectedLM
    optimizer: Optimizer
    schedule: LRScheduler
    weights: ObjectiveWeights
    options: OptimizerConfig
    ranks: Ranks
    recompute: bool = False
    forward_frames: int | None = None

    def __post_init__(self) -> None:
        self.trained: list[Parameter] = [value for value in self.model.parameters() if value.requires_grad]

    def totals(self, targets: Sequence[Targets]) -> Tensor:
        """Denominators of text and voice over the update, float64 [2], from this rank's part of it."""
        config = self.model.lm.config
        total = torch.zeros(2, dtype=torch.float64)
        for target in targets:
            parts = target_parts(
                target.codes[None],
                target.roles[None],
                torch.tensor([target.frames]),
                dep_q=config.dep_q,
                mask=target.mask[None],
                delays=config.delays,
                weights=self.weights,
            )
            total += torch.stack(denominators(parts, self.weights))
        total = total.to(self.ranks.device)
        self.ranks.add_up(total)
        return total

    def make(self, group: Group) -> UpdateResult:
        """One update of a group. Every rank calls it with its part, which may be empty.

        Raises DivergedError for a loss or gradient that is not finite, before the parameters change.
        """
        totals = self.totals(list(group.targets()))
        for parameter in self.trained:
            parameter.grad = torch.zeros_like(parameter)
        device, memory = self.ranks.device, self.model.memory
        readers = 0 if memory is None else len(memory.readers)
        numerators = torch.zeros(2, dtype=torch.float64, device=device)
        part_sums = torch.zeros(len(PARTS), dtype=torch.float64, device=device)
        counts = torch.zeros(len(PARTS) + 2, dtype=torch.int64, device=device)
        strength = ReadStrength(*torch.zeros(2, readers, dtype=torch.float64, device=device))
        for batches in together(group, self.forward_frames):
            sums, added = self._forward(batches)
            loss = sums.loss(totals[0], totals[1])
            if not bool(torch.isfinite(loss)):
                names = ", ".join(repr(batch.call_id) for batch in batches)
                raise DivergedError(
                    f"the loss of call {names} is {float(loss.detach())}",
                    next_step="Start a run in another folder with a lower optimizer.max_learning_rate.",
                )
            if loss.requires_grad:  # A call without memory depends on nothing that trains.
                loss.backward()  # type: ignore[no-untyped-call]
            numerators += _numerators(sums)
            part_sums += sums.part_sums
            counts[:-2] += sums.part_counts
            counts[-2] += len(batches)
            counts[-1] += sum(batch.frames for batch in batches)
            if added is not None:
                strength.residual += added.residual
                strength.native += added.native
        self.ranks.add_up(*(parameter.grad for parameter in self.trained if parameter.grad is not None))
        self.ranks.add_up(numerators, part_sums, strength.residual, strength.native)
        self.ranks.add_up(counts)
        norm = float(clip_grad_norm_(self.trained, self.options.clip_norm))
        if not norm < float("inf"):
            raise DivergedError(
                f"the gradient norm is {norm}",
                next_step="Start a run in another folder with a lower optimizer.max_learning_rate.",
            )
        rate = float(self.optimizer.param_groups[0]["lr"])
        self.optimizer.step()
        self.schedule.step()
        text, voice = (
            float(top / bottom) if bottom else 0.0 for top, bottom in zip(numerators, totals, strict=True)
        )
        *targets, calls, frames = counts.tolist()
        return UpdateResult(
            loss=text + voice,
            text_loss=text,
            voice_loss=voice,
            parts={
                part: loss_sum / count if count else None
                for part, loss_sum, count in zip(PARTS, part_sums.tolist(), targets, strict=True)
            },
            gradient_norm=norm,
            learning_rate=rate,
            read_strength=strength.ratio(),
            calls=calls,
            frames=frames,
        )

    def _forward(self, batches: list[Batch]) -> tuple[LossSums, ReadStrength | None]:
        if len(batches) == 1:
            return teacher_forced(self.model, batches[0], self.weights, recompute=self.recompute)
        sums = teacher_forced_together(self.model, batches, self.weights, recompute=self.recompute)
        return sums, None


def _numerators(sums: LossSums) -> Tensor:
    return torch.stack([sums.text_numerator.detach().double(), sums.voice_numerator.detach().double()])
