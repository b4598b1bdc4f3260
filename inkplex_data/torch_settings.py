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
    """Float32 convolutions on CUDA as on a CPU; its default rounds their inputs to 10 bits (TF32)."""
    import torch

    if device.type != "cuda":
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
        yield
