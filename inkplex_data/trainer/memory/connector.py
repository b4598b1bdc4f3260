"""Attaching memory to PersonaPlex: a writer, four readers, and the blocks that they follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from inkplex_data.errors import ConfigError
from inkplex_data.grid import PLAN_LIMIT, STATE_ROWS
from inkplex_data.memory.plan import plan_chunks
from inkplex_data.trainer.memory.writer_and_readers import ChunkPlan, MemoryReader, MemoryWriter, SlotSource
from inkplex_data.trainer.model.personaplex import LMOutput, PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.model.temporal import BlockHook

READERS = 4


def reader_blocks(layers: int) -> tuple[int, ...]:
    """Zero-based blocks that the four readers follow: L·k/4 − 1, k = 1 … 4 (7, 15, 23, 31 of 32).

    Raises ConfigError where the number of blocks is not a multiple of four.
    """
    if layers < READERS or layers % READERS:
        raise ConfigError(f"four readers need a multiple of four temporal blocks, got {layers}")
    return tuple(layers * k // READERS - 1 for k in range(1, READERS + 1))


@dataclass(frozen=True)
class CallMemory:
    """The memory of one call on one device.

    states: [N, S, D], any float type. text_features: [N, E]. kind: integers [N]. Versions, integers [V]: row
    (their token), start, end (half-open steps, prefix included), recency, age; whole: bool [V].
    """

    states: Tensor
    text_features: Tensor
    kind: Tensor
    row: Tensor
    start: Tensor
    end: Tensor
    recency: Tensor
    age: Tensor
    whole: Tensor

    @property
    def tokens(self) -> int:
        return len(self.kind)

    @property
    def versions(self) -> int:
        return len(self.row)

    def plan(self, steps: int, limit: int = PLAN_LIMIT) -> ChunkPlan:
        """The chunk plan of this call, int64 [chunks, 3]; waits for the device that holds the versions."""
        return plan_chunks(self.start.cpu().numpy(), self.end.cpu().numpy(), steps=steps, limit=limit)


@dataclass
class ReadStrength:
    """How much the readers add: sums over real steps of residual norms and native-state norms, [4] each.

    Their ratio is `read_strength` (seeds/000, section 6). Sums of several calls and ranks add up.
    """

    residual: Tensor
    native: Tensor

    def ratio(self) -> list[float]:
        """Mean residual norm over mean native norm for each reader; 0 before any step."""
        return (self.residual / self.native.clamp(min=torch.finfo(torch.float64).tiny)).tolist()


class MemoryReaders(nn.Module):
    """One writer and four readers, everything that Stage 1 trains, for a model of `config`.

    Lexical features come from the model's text embedding; a reader has as many heads as a temporal block.
    """

    def __init__(self, config: PersonaPlexConfig, *, state_width: int = 4096, slot_width: int = 1024) -> None:
        super().__init__()
        self.blocks = reader_blocks(config.layers)
        self.writer = MemoryWriter(len(STATE_ROWS), state_width, config.dim, slot_width)
        self.readers = nn.ModuleList(MemoryReader(config.dim, slot_width, config.heads) for _ in self.blocks)

    def slots_of(self, memory: CallMemory) -> SlotSource:
        """Write the call's tokens; returns what turns version indices int64 [n] into slots [n, M]."""
        tokens = self.writer.write_tokens(memory.states, memory.text_features, memory.kind)

        def slots(columns: Tensor) -> Tensor:
            return self.writer.write_versions(
                tokens,
                memory.row[columns],
                memory.recency[columns],
                memory.age[columns],
                memory.whole[columns],
            )

        return slots


class Attachment:
    """The memory of one call, attached for a full-sequence forward: `after_block` goes to `forward_train`.

    Writes the call's tokens and holds the autograd graph of the writer until it is dropped; make a new one for
    every forward. chunks: the call's plan, made here when absent. frames: real steps, for `read_strength`.
    """

    def __init__(
        self,
        modules: MemoryReaders,
        memory: CallMemory,
        *,
        chunks: ChunkPlan | None = None,
        frames: int | None = None,
    ) -> None:
        self._memory, self._chunks, self._frames = memory, chunks, frames
        self._slots = modules.slots_of(memory)
        count = len(modules.readers)
        zeros = torch.zeros(2, count, dtype=torch.float64, device=memory.row.device)
        self.strength = ReadStrength(zeros[0], zeros[1])
        self.after_block: dict[int, BlockHook] = {
            block: self._hook(index, cast(MemoryReader, modules.readers[index]))
            for index, block in enumerate(modules.blocks)
        }

    def _hook(self, index: int, reader: MemoryReader) -> BlockHook:
        def after(native: Tensor, first_step: int) -> Tensor:
            if native.shape[0] != 1:
                raise ValueError(f"memory is read one call at a time, got a batch of {native.shape[0]}")
            if self._chunks is None:  # One plan serves the four readers.
                self._chunks = self._memory.plan(first_step + native.shape[1])
            residual = reader(
                native,
                self._slots,
                self._memory.start,
                self._memory.end,
                first_step=first_step,
                chunks=self._chunks,
            )
            self._measure(index, residual, native, first_step)
            return native + residual

        return after

    @torch.no_grad()
    def _measure(self, index: int, residual: Tensor, native: Tensor, first_step: int) -> None:
        real = native.shape[1] if self._frames is None else max(self._frames - first_step, 0)
        self.strength.residual[index] += residual[:, :real].double().norm(dim=-1).sum()
        self.strength.native[index] += native[:, :real].double().norm(dim=-1).sum()


class ConnectedLM(nn.Module):
    """A speech model, with or without a memory to read: what a training step calls. Memory is read one call at a
    time.

    sharded: whether the speech model is divided among ranks, so that every rank must take part in each forward.
    """

    sharded = False

    def __init__(self, lm: PersonaPlexLM, memory: MemoryReaders | None) -> None:
        super().__init__()
        self.lm, self.memory = lm, memory

    def text_table(self) -> Tensor:
        """The text embedding [C, E] that lexical features are means of, whole; every rank must ask for it."""
        if self.sharded:
            getattr(self.lm, "unshard")()  # noqa: B009 (FSDPModule's)
        return self.lm.text_emb.weight

    def forward(
        self,
        codes: Tensor,
        memory: CallMemory | None,
        *,
        chunks: ChunkPlan | None = None,
        frames: int | None = None,
        recompute: bool = False,
    ) -> tuple[LMOutput, ReadStrength | None]:
        """codes: [B, 17, T], B = 1 with memory; memory None is the speech model alone."""
        if memory is None or self.memory is None:
            return self.lm(codes, recompute=recompute), None
        attached = Attachment(self.memory, memory, chunks=chunks, frames=frames)
        out = self.lm(codes, attached.after_block, recompute=recompute)
        return out, attached.strength
