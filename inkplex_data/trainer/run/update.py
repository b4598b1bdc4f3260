"""One optimiser update: the calls of a group, forward and backward one at a time or several together, divided once
by totals that every rank knows before its first forward (seeds/000, "Current sequence memory", section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from inkplex_data.errors import InkplexError
from inkplex_data.loader.damaged_sample import DamagedSampleError
from inkplex_data.trainer.memory.connector import ConnectedLM, ReadStrength
from inkplex_data.trainer.run.bad_samples import (
    BadSample,
    BadSamples,
    is_out_of_memory,
    of_batch,
    of_damage,
    out_of_step,
    peak_bytes,
)
from inkplex_data.trainer.run.objective import (
    PARTS,
    LossSums,
    ObjectiveWeights,
    denominators,
    target_parts,
)
from inkplex_data.trainer.run.optimiser import OptimizerConfig
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.sharding.parts import is_whole
from inkplex_data.trainer.run.teacher_forcing import (
    idle,
    in_step,
    teacher_forced,
    teacher_forced_together,
    together,
)

if TYPE_CHECKING:
    from inkplex_data.loader import Batch, Group, Targets


class DivergedError(InkplexError, ArithmeticError):
    """A gradient is not finite; the last checkpoint is from before."""


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

    def totals(self, targets: Iterable[Targets]) -> Tensor:
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
        return total.to(self.ranks.device)

    def make(self, group: Group, *, alone: bool = False) -> UpdateResult:
        """One update of a group. Every rank calls it with its part, which may be empty. alone: one window at a time.

        Raises BadSamples for samples of any rank that cannot be used, and DivergedError for a gradient that is not
        finite, before the parameters change.
        """
        bad: list[_Fault] = []
        with self._noting(bad):
            totals = self.totals(group.targets())
        self._refuse(bad)
        self.ranks.add_up(totals)
        for parameter in self.trained:
            parameter.grad = torch.zeros_like(parameter)
        device, memory = self.ranks.device, self.model.memory
        readers = 0 if memory is None else len(memory.readers)
        sums = _Sums(device, readers)
        for batches in self._steps(group, None if alone else self.forward_frames, bad):
            with self._noting(bad, batches):
                self._step(batches, totals, sums, bad)
        self._refuse(bad)
        grads = (parameter.grad for parameter in self.trained)
        self.ranks.add_up(*(grad for grad in grads if grad is not None and is_whole(grad)))
        self.ranks.add_up(sums.numerators, sums.parts, sums.strength.residual, sums.strength.native)
        self.ranks.add_up(sums.counts)
        norm = self._clip()
        if not norm < float("inf"):
            raise DivergedError(
                f"the gradient norm is {norm}",
                next_step="Start a run in another folder with a lower optimizer.max_learning_rate.",
            )
        rate = float(self.optimizer.param_groups[0]["lr"])
        *targets, calls, frames = sums.counts.tolist()
        if calls:  # An update whose calls were all left out moves nothing.
            self.optimizer.step()
        self.schedule.step()
        text, voice = (
            float(top / bottom) if bottom else 0.0
            for top, bottom in zip(sums.numerators, totals, strict=True)
        )
        return UpdateResult(
            loss=text + voice,
            text_loss=text,
            voice_loss=voice,
            parts={
                part: loss_sum / count if count else None
                for part, loss_sum, count in zip(PARTS, sums.parts.tolist(), targets, strict=True)
            },
            gradient_norm=norm,
            learning_rate=rate,
            read_strength=sums.strength.ratio(),
            calls=calls,
            frames=frames,
        )

    def _steps(
        self, group: Group, forward_frames: int | None, bad: list[_Fault]
    ) -> Iterator[list[Batch] | None]:
        """This rank's batches, as many together as fit, up to one that is damaged; None where only others have some."""

        def readable() -> Iterator[Batch]:
            with self._noting(bad):
                for place in range(len(group)):
                    self.ranks.doing(f"reads sample {place + 1} of its part of an update")
                    yield next(group)

        steps = together(readable(), forward_frames)
        return in_step(steps, self.ranks) if self.model.sharded else steps

    def _step(self, batches: list[Batch] | None, totals: Tensor, sums: _Sums, bad: list[_Fault]) -> None:
        """Forward and backward of some windows."""
        if bad and not self.model.sharded:
            return  # This update will be made anew.
        if batches is None:
            lost = idle(self.model, self.weights, recompute=self.recompute)
            lost.loss(totals[0], totals[1]).backward()  # type: ignore[no-untyped-call]
            return
        self.ranks.doing(f"computes {', '.join(repr(batch.call_id) for batch in batches)}")
        lost, strength = self._forward(batches)
        loss = lost.loss(totals[0], totals[1])
        if not bool(torch.isfinite(loss)):
            bad.append(_Fault(self._samples(batches, f"its loss is {float(loss.detach())}")))
        if loss.requires_grad:  # A call without memory depends on nothing that trains.
            loss.backward()  # type: ignore[no-untyped-call]
        sums.add(lost, strength, len(batches), sum(batch.frames for batch in batches))

    @contextmanager
    def _noting(self, bad: list[_Fault], batches: list[Batch] | None = None) -> Iterator[None]:
        """A block that ends where a sample is damaged or memory runs out, which is noted in `bad`.

        Where the model is divided, memory that runs out in the middle of a forward leaves the other ranks waiting: then it
        raises BadSampleError, which names the sample.
        """
        try:
            yield
        except DamagedSampleError as error:
            bad.append(_Fault([of_damage(error, self.ranks.rank)]))
        except (RuntimeError, MemoryError) as error:
            if not batches or not is_out_of_memory(error):
                raise
            samples = self._samples(batches, "it needs more memory than there is")
            if self.model.sharded:
                raise out_of_step(samples) from error
            bad.append(_Fault(samples))

    def _samples(self, batches: Sequence[Batch], what: str) -> list[BadSample]:
        peak = peak_bytes(self.ranks.device)
        return [of_batch(batch, self.ranks.rank, what, peak) for batch in batches]

    def _refuse(self, bad: list[_Fault]) -> None:
        """Raise BadSamples on every rank where one has a fault."""
        if not self.ranks.any(bool(bad)):
            return
        faults = [fault for theirs in self.ranks.of_all(bad) for fault in theirs]
        # Of windows that went through the device together nobody knows which one it was.
        found = [fault.samples[0] for fault in faults if len(fault.samples) == 1]
        raise BadSamples(found, alone=any(len(fault.samples) > 1 for fault in faults))

    def _clip(self) -> float:
        if self.model.sharded:
            from inkplex_data.trainer.run.sharding.shard_model import clip_gradients

            return clip_gradients(self.trained, self.options.clip_norm)
        return float(clip_grad_norm_(self.trained, self.options.clip_norm))

    def _forward(self, batches: list[Batch]) -> tuple[LossSums, ReadStrength | None]:
        if len(batches) == 1:
            return teacher_forced(self.model, batches[0], self.weights, recompute=self.recompute)
        sums = teacher_forced_together(self.model, batches, self.weights, recompute=self.recompute)
        return sums, None


@dataclass(frozen=True)
class _Fault:
    """Samples of one forward that failed."""

    samples: list[BadSample]


class _Sums:
    """What an update adds up over its calls, and then over ranks."""

    def __init__(self, device: torch.device, readers: int) -> None:
        self.numerators = torch.zeros(2, dtype=torch.float64, device=device)
        self.parts = torch.zeros(len(PARTS), dtype=torch.float64, device=device)
        self.counts = torch.zeros(len(PARTS) + 2, dtype=torch.int64, device=device)
        self.strength = ReadStrength(*torch.zeros(2, readers, dtype=torch.float64, device=device))

    def add(self, lost: LossSums, strength: ReadStrength | None, calls: int, frames: int) -> None:
        tops = (lost.text_numerator, lost.voice_numerator)
        self.numerators += torch.stack([top.detach().double() for top in tops])
        self.parts += lost.part_sums
        self.counts[:-2] += lost.part_counts
        self.counts[-2] += calls
        self.counts[-1] += frames
        if strength is not None:
            self.strength.residual += strength.residual
            self.strength.native += strength.native
