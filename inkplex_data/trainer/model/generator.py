"""Streaming generation, one frame a step, as the released generator does it (seeds/000, section 7).

The released generator drops what it is given at its first call: that call only sets up the initial column,
so a prefix forced through it loses its first frame. `StreamingGenerator` makes that call itself (the prime
frame), so that the first frame given is frame 0 and step t reads and predicts what `forward_train` does.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from inkplex_data.errors import UsageError
from inkplex_data.grid import NO_INPUT, NOT_GENERATED
from inkplex_data.trainer.model.cache import RingKind
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.ring import CodeRing
from inkplex_data.trainer.model.sampling import Sampling, sample
from inkplex_data.trainer.model.temporal import BlockHook

REPLAY_BLOCK = 256
"""Forced steps that run through the temporal model together; bounds memory, changes no result."""


@dataclass(frozen=True)
class GeneratorStep:
    """What one call gave.

    step: the model step that was made, −1 for the released first call that makes none.
    frame, codes: index and aligned ids [B, streams] of the newest whole frame (`step` less the largest
    delay), or None. text_logits [B, text_card] and audio_logits [B, dep_q, audio_card] predict position
    step + 1 of the delayed sequence; only with `logits=True`.
    """

    step: int
    frame: int | None = None
    codes: Tensor | None = None
    text_logits: Tensor | None = None
    audio_logits: Tensor | None = None


class StreamingGenerator:
    """Generates frame by frame; every id may be provided instead.

    ring: `released` hides the slot that the released caches hide, in time and in depth; `exact` computes what
    full-sequence training computes. prime: make the released first call, whose ids are dropped, right away.
    after_block: as in `PersonaPlexLM.forward_train`; each hook is told the step of its first row.
    """

    def __init__(
        self,
        lm: PersonaPlexLM,
        *,
        batch: int = 1,
        sampling: Sampling | None = None,
        seed: int = 0,
        ring: RingKind = "released",
        prime: bool = True,
        after_block: Mapping[int, BlockHook] | None = None,
    ) -> None:
        if ring not in ("released", "exact"):
            raise UsageError(f"ring must be 'released' or 'exact', got {ring!r}")
        self.lm, self.sampling, self.after_block = lm, sampling or Sampling(), after_block
        self._random = torch.Generator(device=lm.device).manual_seed(seed)
        self._codes = CodeRing(lm.delays, lm.initial_ids(), batch)
        self._temporal = lm.transformer.rings(batch, ring)
        self._depth = lm.depformer.rings(batch, ring)
        self._pending: list[Tensor] = []
        self._primed = prime

    @property
    def next_step(self) -> int:
        """Index of the next model step, which is also the frame that the next call provides."""
        return self._codes.step

    @torch.no_grad()
    def step(self, frame: Tensor, *, logits: bool = False) -> GeneratorStep:
        """Provide frame `next_step` and run one step.

        frame: integers [B, streams], aligned; −2 is to be generated, −1 is no input. Streams that the model
        does not predict must be provided. logits: also return logits, which runs depth even where every id
        was provided. Raises UsageError for a frame of another shape or an id that cannot be had.
        """
        frame = frame.to(self.lm.device, torch.long)
        expected = [self._codes.column().shape[0], self.lm.config.streams]
        if list(frame.shape) != expected:
            raise UsageError(f"a frame must be {expected} ids, got {list(frame.shape)}")
        if not self._primed:
            self._primed = True
            return GeneratorStep(step=-1)
        self._codes.place(frame)
        column, step = self._codes.column(), self._codes.step
        target, provided = self._codes.target()
        if (column < NO_INPUT).any():
            missing = int(torch.nonzero((column < NO_INPUT).any(dim=0))[0])
            raise UsageError(
                f"stream {missing} is not predicted (dep_q {self.lm.config.dep_q}) and was not provided",
                where=f"step {step}",
            )
        self._pending.append(column)
        text_logits = audio_logits = ids = None
        if logits or not bool(provided[:, : self.lm.config.dep_q + 1].all()):
            hidden, text_logits = self._flush()
            ids, audio_logits = self._predict(hidden, text_logits, target, provided)
        elif len(self._pending) >= REPLAY_BLOCK:
            self._flush()
        self._codes.advance(ids)
        emitted = self._codes.emitted()
        return GeneratorStep(
            step=step,
            frame=emitted[0] if emitted else None,
            codes=emitted[1] if emitted else None,
            text_logits=text_logits if logits else None,
            audio_logits=audio_logits if logits else None,
        )

    def fork(self, after_block: Mapping[int, BlockHook] | None) -> StreamingGenerator:
        """A generator that has done what this one has, and goes on by itself with other hooks: the same ids, keys, values
        and draws to come. What is pending is run first, so that it sees this one's hooks."""
        if self._pending:
            self._flush()
        twin = copy.copy(self)
        twin._codes, twin._temporal = copy.deepcopy(self._codes), copy.deepcopy(self._temporal)
        twin._depth = copy.deepcopy(self._depth)
        twin._random = torch.Generator(device=self.lm.device)
        twin._random.set_state(self._random.get_state())
        twin._pending = []
        twin.after_block = after_block
        return twin

    def replay(self, codes: Tensor) -> list[GeneratorStep]:
        """Force whole frames: codes integers [B, streams, F], the prefix for one. Temporal steps are batched."""
        return [self.step(codes[..., frame]) for frame in range(codes.shape[-1])]

    def frame(
        self, *, text: Tensor | None = None, agent: Tensor | None = None, caller: Tensor | None = None
    ) -> Tensor:
        """A frame for `step`, int64 [B, streams], from text [B], agent codes [B, n] and caller codes [B, n],
        n = n_q / 2; what is left out is −2, to be generated."""
        batch = self._codes.column().shape[0]
        out = torch.full((batch, self.lm.config.streams), NOT_GENERATED, device=self.lm.device)
        half = self.lm.config.n_q // 2
        if text is not None:
            out[:, 0] = text
        if agent is not None:
            out[:, 1 : 1 + half] = agent
        if caller is not None:
            out[:, 1 + half :] = caller
        return out

    def _flush(self) -> tuple[Tensor, Tensor]:
        """Run pending columns through the temporal model: (hidden [B, 1, dim], text logits [B, text_card])
        of the last one."""
        sequence = torch.stack(self._pending, dim=-1)
        self._pending.clear()
        native = self.lm.transformer(
            self.lm.embed(sequence), rings=self._temporal, after_block=self.after_block
        )
        hidden, text_logits = self.lm.read_out(native[:, -1:])
        return hidden, text_logits[:, 0, 0]

    def _predict(
        self, hidden: Tensor, text_logits: Tensor, target: Tensor, provided: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw text, then the codebooks in order, each conditioned on the ids before it (a provided id
        replaces the one drawn). Returns (ids int64 [B, streams], audio logits [B, dep_q, audio_card])."""
        how = self.sampling
        ids = target.clone()
        drawn = sample(
            text_logits, temperature=how.text_temperature, top_k=how.text_top_k, generator=self._random
        )
        ids[:, 0] = torch.where(provided[:, 0], target[:, 0], drawn)
        for ring in self._depth:
            ring.reset()
        rows = []
        for q, head in enumerate(self.lm.linears):
            inputs = self.lm.depth_input(q, hidden, ids[:, q : q + 1])
            row = head(self.lm.depformer.step(inputs, q, self._depth))[:, 0]
            drawn = sample(
                row, temperature=how.audio_temperature, top_k=how.audio_top_k, generator=self._random
            )
            ids[:, q + 1] = torch.where(provided[:, q + 1], target[:, q + 1], drawn)
            rows.append(row)
        return ids, torch.stack(rows, dim=1)
