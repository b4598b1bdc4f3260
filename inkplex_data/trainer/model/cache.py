"""Key and value rings for streaming attention.

The released cache labels the slot that holds its oldest key with a future position as soon as it is full,
so the causal mask hides that key: a ring of C slots shows C − 1 keys (seeds/000, "Temporal attention
cache"). `ring="released"` keeps that, because the released model speaks with it; `ring="exact"` shows all C
keys, which is what full-sequence training computes.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

RingKind = Literal["released", "exact"]


class KVRing:
    """Keys and values of the last `capacity` positions of one attention layer.

    Memory: 2 × [batch, heads, capacity, width] of the type of the weights. Keys are stored already rotated.
    """

    def __init__(self, batch: int, heads: int, capacity: int, kind: RingKind, *, weight: Tensor) -> None:
        """`weight`: the layer's packed projection [..., heads · width], whose type and device the ring has."""
        self.capacity = capacity
        self.window = capacity - 1 if kind == "released" else capacity
        self.end = 0
        self._cache = weight.new_zeros(2, batch, heads, capacity, weight.shape[-1] // heads)

    def reset(self) -> None:
        """Forget every position."""
        self.end = 0

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add keys and values [B, H, T, width] of the next T positions.

        Returns (keys [B, H, n, width], values, mask): all that these T queries may look at, and a bool mask
        [T, n] of what each one sees, or None where each sees everything.
        """
        if keys.shape[2] == 1:
            return self._extend_one(keys, values)
        return self._extend_many(keys, values)

    def _extend_one(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        slot = self.end % self.capacity
        self._cache[0, :, :, slot] = keys[:, :, 0]
        self._cache[1, :, :, slot] = values[:, :, 0]
        self.end += 1
        used = min(self.end, self.capacity)
        mask = None
        if used > self.window:
            # The oldest key lies where the next one will be written.
            mask = torch.ones(1, used, dtype=torch.bool, device=keys.device)
            mask[0, self.end % self.capacity] = False
        return self._cache[0, :, :, :used], self._cache[1, :, :, :used], mask

    def _extend_many(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        steps, device = keys.shape[2], keys.device
        past = min(self.end, self.capacity)
        order = torch.arange(self.end - past, self.end, device=device) % self.capacity
        all_keys = torch.cat([self._cache[0][:, :, order], keys], dim=2)
        all_values = torch.cat([self._cache[1][:, :, order], values], dim=2)
        query = torch.arange(self.end, self.end + steps, device=device)[:, None]
        age = query - torch.arange(self.end - past, self.end + steps, device=device)[None]
        kept = min(steps, self.capacity)
        slots = torch.arange(self.end + steps - kept, self.end + steps, device=device) % self.capacity
        self._cache[0].index_copy_(2, slots, keys[:, :, steps - kept :])
        self._cache[1].index_copy_(2, slots, values[:, :, steps - kept :])
        self.end += steps
        return all_keys, all_values, (age >= 0) & (age < self.window)
