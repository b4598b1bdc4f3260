"""Hidden rows as the store keeps them: bfloat16 bits in uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXPONENT = np.uint16(0x7F80)


def from_float32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """float32 to the nearest bfloat16, ties to even. NaN stays NaN; what is too large becomes infinite."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )
    # Adding the half can carry a NaN over into a zero.
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_tensor(values: Any) -> NDArray[np.uint16]:
    """A torch tensor of any float type and device to the nearest bfloat16, in memory of its own."""
    import torch

    bits = torch.empty(values.shape, dtype=torch.bfloat16).copy_(values)
    return bits.view(torch.int16).numpy().view(np.uint16)


def first_not_finite(bits: NDArray[np.uint16]) -> int | None:
    """Index of the first row of uint16 [n, …] that holds a NaN or an infinity."""
    bad = ((bits & _EXPONENT) == _EXPONENT).reshape(len(bits), -1)
    if not bad.any():
        return None
    return int(np.flatnonzero(bad.any(axis=1))[0])
