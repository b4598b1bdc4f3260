"""Hidden rows as the store keeps them: bfloat16 bits in uint16."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_EXPONENT = np.uint16(0x7F80)
DTYPE_NAMES: Final = {
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""Float types that states are dumped in, as safetensors spells them, and as torch does."""


def from_float32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """float32 to the nearest bfloat16, ties to even. NaN stays NaN; what is too large becomes infinite."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )
    # Adding the half can carry a NaN over into a zero.
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def to_float32(data: bytes, dtype: str) -> NDArray[np.float32]:
    """The values of little-endian bytes of a type of `DTYPE_NAMES`, exactly, float32 [n]."""
    if dtype == "F32":
        return np.frombuffer(data, "<f4").astype(np.float32, copy=False)
    if dtype == "F16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    return float8_values(dtype)[np.frombuffer(data, np.uint8)]


def to_bits(data: bytes, dtype: str) -> NDArray[np.uint16]:
    """The same values rounded to bfloat16, uint16 [n]."""
    if dtype == "BF16":
        return np.frombuffer(data, "<u2").astype(np.uint16, copy=False)
    return from_float32(to_float32(data, dtype))


@cache
def float8_values(dtype: str) -> NDArray[np.float32]:
    """The 256 values of an eight-bit float type, float32 [256]: OCP 8-bit floating point, E4M3 and E5M2."""
    codes = np.arange(256, dtype=np.uint16)
    if dtype == "F8_E5M2":  # the upper byte of a float16
        return (codes << np.uint16(8)).view(np.float16).astype(np.float32)
    exponent, mantissa = (codes >> 3) & 15, (codes & 7).astype(np.float32)
    scale = np.exp2(np.maximum(exponent, 1).astype(np.float32) - 7)
    values = scale * ((exponent > 0) + mantissa / 8)
    values[(codes & 127) == 127] = np.nan
    return np.where(codes >= 128, -values, values).astype(np.float32)


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
