"""The code ring: the few delayed positions that a generator has given or generated but not yet read."""

from __future__ import annotations

import torch
from torch import Tensor

from inkplex_data.grid import NOT_GENERATED
from inkplex_data.trainer.model.delays import Delays


class CodeRing:
    """Ids and `provided` flags of `max_delay + 3` positions of the delayed sequence (seeds/000, section 7).

    `step` is the next model step: it reads position `step` and fills position `step + 1`. Positions before a
    stream's first frame hold its initial id and count as provided.
    """

    def __init__(self, delays: Delays, initial: Tensor, batch: int) -> None:
        """initial: int64 [K], the id of each stream before its first frame."""
        K, capacity, device = len(delays), delays.maximum + 3, initial.device
        self.delays, self.capacity, self.step = delays, capacity, 0
        self._streams = torch.arange(K, device=device)
        self._ids = torch.full((batch, K, capacity), NOT_GENERATED, device=device)
        self._provided = torch.zeros(batch, K, capacity, dtype=torch.bool, device=device)
        for k, delay in enumerate(delays.delays):
            self._ids[:, k, : delay + 1] = initial[k]
            self._provided[:, k, : delay + 1] = True

    def place(self, frame: Tensor) -> None:
        """Provide ids [B, K] of frame `step`, each at its delayed position; −2 leaves one to be generated."""
        slots = self.delays.positions(self.step, frame.device) % self.capacity
        given = frame != NOT_GENERATED
        self._ids[:, self._streams, slots] = torch.where(given, frame, self._ids[:, self._streams, slots])
        self._provided[:, self._streams, slots] |= given

    def column(self) -> Tensor:
        """What the model reads at this step, int64 [B, K]."""
        return self._ids[:, :, self.step % self.capacity].clone()

    def target(self) -> tuple[Tensor, Tensor]:
        """Position `step + 1`: (ids int64 [B, K], provided bool [B, K]); ids that are not provided mean nothing."""
        slot = (self.step + 1) % self.capacity
        return self._ids[:, :, slot].clone(), self._provided[:, :, slot].clone()

    def advance(self, ids: Tensor | None) -> None:
        """Store generated ids [B, K] where none was provided, forget the column just read, go on."""
        if ids is not None:
            slot = (self.step + 1) % self.capacity
            provided = self._provided[:, :, slot]
            self._ids[:, :, slot] = torch.where(provided, self._ids[:, :, slot], ids)
        self._provided[:, :, self.step % self.capacity] = False
        self.step += 1

    def emitted(self) -> tuple[int, Tensor] | None:
        """The newest whole frame, after `advance`: (its index, aligned ids int64 [B, K]); None before the first."""
        frame = self.step - 1 - self.delays.maximum
        if frame < 0:
            return None
        slots = self.delays.positions(frame, self._ids.device) % self.capacity
        return frame, self._ids[:, self._streams, slots]
