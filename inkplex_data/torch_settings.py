"""Settings of the torch process that decide bytes: set for a while, then put back, for a trainer may share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Torch's thread count for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def exact_convolutions(device: torch.device) -> Iterator[None]:
    """Float32 convolutions and products on CUDA as on a CPU, not rounded to 10 bits (TF32) as its default or a trainer
    would have them."""
    import torch

    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
