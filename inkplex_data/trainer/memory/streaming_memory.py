"""Memory during generation: keys and values are kept from step to step, and only new versions are made.

Between two steps a few hundred of up to 40,000 visible versions change, so projecting the others again would
be most of the work (seeds/000, section 5: generation selects the current step only).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from inkplex_data.trainer.memory.connector import CallMemory, MemoryReaders
from inkplex_data.trainer.memory.writer_and_readers import MemoryReader, no_autocast
from inkplex_data.trainer.model.temporal import BlockHook


class LiveMemory:
    """The memory of one call for a generator: `after_block` gives each step what it may see.

    Steps may come one by one or several at once, in any order. Holds 2 × [readers, H, most visible versions,
    W / H] in the readers' dtype. Without gradients.
    """

    @torch.no_grad()
    def __init__(self, modules: MemoryReaders, memory: CallMemory) -> None:
        self._slots = modules.slots_of(memory)
        self._start, self._end = memory.start.long(), memory.end.long()
        readers = [cast(MemoryReader, reader) for reader in modules.readers]
        weight, device = readers[0].query.weight, memory.row.device
        places, heads = _most_visible(self._start, self._end), readers[0].heads
        shape = (2, len(readers), heads, places, weight.shape[0] // heads)
        self._bank = torch.zeros(shape, dtype=weight.dtype, device=device)
        self._held = torch.full((places,), -1, device=device)  # version in each place
        self._place = torch.full((memory.versions,), -1, device=device)  # place of each version
        self._live = torch.zeros(places, dtype=torch.bool, device=device)
        self._step: int | None = None
        self._readers = readers
        self.after_block: dict[int, BlockHook] = {
            block: self._hook(index) for index, block in enumerate(modules.blocks)
        }

    def _show(self, step: int) -> None:
        """Bring the bank to `step`: visible versions that are not held take the places of those gone."""
        if step == self._step:
            return
        self._step = step
        visible = (self._start <= step) & (step < self._end)
        held = self._held.clamp(min=0)
        self._live = (self._held >= 0) & visible[held] if len(visible) else self._live
        new = torch.nonzero(visible & (self._place < 0)).flatten()
        # Versions that are gone leave the bank now, so that they are made again if a step goes back.
        gone = self._held[~self._live & (self._held >= 0)]
        self._place[gone] = -1
        self._held[~self._live] = -1
        if not len(new):
            return
        places = torch.nonzero(~self._live).flatten()[: len(new)]
        slots = self._slots(new)
        for index, reader in enumerate(self._readers):
            key, value = reader.keys_and_values(slots)
            self._bank[0, index][:, places] = key[0]
            self._bank[1, index][:, places] = value[0]
        self._held[places], self._place[new] = new, places
        self._live[places] = True

    def _hook(self, index: int) -> BlockHook:
        reader = self._readers[index]

        @torch.no_grad()
        def after(native: Tensor, first_step: int) -> Tensor:
            if native.shape[0] != 1:
                raise ValueError(f"memory is read one call at a time, got a batch of {native.shape[0]}")
            if native.shape[1] == 1:
                return native + self._read_step(index, native, first_step)
            return native + reader(native, self._slots, self._start, self._end, first_step=first_step)

        return after

    def _read_step(self, index: int, native: Tensor, step: int) -> Tensor:
        reader = self._readers[index]
        with no_autocast(native):
            self._show(step)
            if not bool(self._live.any()):
                return torch.zeros_like(native)
            attended = F.scaled_dot_product_attention(
                reader.queries(native),
                self._bank[0, index][None],
                self._bank[1, index][None],
                attn_mask=self._live[None],
            )
            seen = torch.ones(1, dtype=torch.bool, device=native.device)
            return reader.residual(attended, seen, native.dtype)


def _most_visible(start: Tensor, end: Tensor) -> int:
    """The largest number of versions that one step sees; start, end: int64 [V]."""
    if not len(start):
        return 0
    low = int(start.min())
    begins, ends = start - low, torch.maximum(start, end) - low
    size = int(ends.max()) + 1
    change = torch.bincount(begins, minlength=size) - torch.bincount(ends, minlength=size)
    return int(change.cumsum(0).max())
