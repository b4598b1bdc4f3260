"""The processes of one run: `torchrun` starts them, and they meet to add up sums and gradients.

No module is wrapped. An update adds gradients of numerators that were already divided by global totals, so
one sum over the ranks, once an update, is exact (seeds/000, "Current sequence memory", section 10).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from inkplex_data.errors import ConfigError

BUCKET_BYTES = 64 * 2**20
_PATIENCE = timedelta(minutes=30)
"""How long ranks wait for each other: a check on the panel or a slow disk takes minutes."""


@dataclass(frozen=True)
class Ranks:
    """This process among `world_size`; alone it is rank 0 of 1 and meets nobody."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (immutable)

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks to the terminal."""
        return self.rank == 0

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over ranks, in buckets; every rank must call it with the same shapes."""
        if self.world_size == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.detach().copy_(part.view_as(tensor))

    def same_everywhere(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the tensors of rank 0."""
        if self.world_size > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def meet(device: str = "auto") -> Iterator[Ranks]:
    """This process's place in the run, from `torchrun`'s environment; gloo on a CPU, NCCL on GPUs.

    device: `auto` takes a GPU where there is one. Raises ConfigError for a device that cannot be used.
    """
    place = usable_device(device)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Ranks(device=place)
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), place)
    finally:
        dist.destroy_process_group()


def usable_device(name: str) -> torch.device:
    """A device by name; `auto` takes a GPU where there is one. Raises ConfigError for one that cannot be used."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(name)
        if place.type == "cuda" and place.index is None:
            place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the device {name!r} is not usable: {str(error).splitlines()[0]}",
            next_step="Use --device cpu, or a torch build for this accelerator.",
        ) from error
    return place


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors in order, together as long as they share dtype and device and fit a bucket."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        size += tensor.numel() * tensor.element_size()
        if bucket and (
            size > BUCKET_BYTES or tensor.dtype != bucket[0].dtype or tensor.device != bucket[0].device
        ):
            yield bucket
            bucket, size = [], tensor.numel() * tensor.element_size()
        bucket.append(tensor)
    if bucket:
        yield bucket
