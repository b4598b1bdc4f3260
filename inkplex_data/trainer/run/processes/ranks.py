"""The processes of one run: `torchrun` starts them, and they meet to add up sums and gradients.

An update adds gradients of numerators that were already divided by global totals, so one sum over the ranks, once an
update, is exact (seeds/000, "Current sequence memory", section 10). What one rank meets with, all hear of: a run never
goes on with some of its ranks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from inkplex_data.errors import ConfigError, InkplexError
from inkplex_data.trainer.run.processes.watchdog import Watchdog

Value = TypeVar("Value")

BUCKET_BYTES = 64 * 2**20
_PATIENCE = timedelta(minutes=30)
"""How long ranks wait for each other: a check on the panel or a slow disk takes minutes."""


class OtherRankError(InkplexError):
    """Another rank of the run has failed; its error names it."""


class LostRankError(InkplexError):
    """Ranks wait for one that does not come."""


@dataclass(frozen=True)
class Ranks:
    """This process among `world_size`; alone it is rank 0 of 1 and meets nobody."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (immutable)
    watch: Watchdog | None = None

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
            with self._meeting("adding up"):
                dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.detach().copy_(part.view_as(tensor))

    def same_everywhere(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the tensors of rank 0."""
        if self.world_size > 1:
            with self._meeting("sharing what rank 0 has"):
                for tensor in tensors:
                    dist.broadcast(tensor.detach(), src=0)

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world_size > 1:
            with self._meeting("waiting for all"):
                dist.barrier()

    def from_first(self, value: Value) -> Value:
        """What rank 0 says; a value that JSON could hold."""
        if self.world_size == 1:
            return value
        said = [value]
        with self._meeting("hearing what rank 0 says"):
            dist.broadcast_object_list(said, src=0, device=self.device)
        return said[0]

    def of_all(self, value: Value) -> list[Value]:
        """What each rank says, by rank."""
        if self.world_size == 1:
            return [value]
        said: list[Any] = [None] * self.world_size
        with self._meeting("hearing what all say"):
            dist.all_gather_object(said, value)
        return said

    def any(self, here: bool) -> bool:
        """Whether it is so on any rank."""
        if self.world_size == 1:
            return here
        count = torch.tensor(int(here), device=self.device)
        with self._meeting("agreeing on how to go on"):
            dist.all_reduce(count)
        return bool(count)

    def doing(self, what: str) -> None:
        """Note what this rank works on, for the others to name it by."""
        if self.watch is not None:
            self.watch.doing(what)

    @contextmanager
    def _meeting(self, what: str) -> Iterator[None]:
        """All ranks do something together. Raises LostRankError where some do not come in time, or are gone."""
        if self.watch is not None:
            self.watch.waiting(what)
        try:
            yield
            # A GPU's ranks meet later than the call: whoever asks for the result waits.
        except RuntimeError as error:
            missing = "" if self.watch is None else self.watch.suspects()
            raise LostRankError(
                f"not all ranks came to this: {what}. {missing or str(error).splitlines()[0]}",
                next_step="Look at that rank's own output, and run the same command with --resume.",
            ) from error
        self.doing("goes on")

    @contextmanager
    def alike(self) -> Iterator[None]:
        """A block, without meetings in it, that fails on every rank where it fails on one, so that none waits for it.

        Raises the own error of this rank, else OtherRankError with that of the lowest rank that has one.
        """
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        for rank, told in enumerate(self.of_all(None if own is None else _told(own))):
            if told is not None and own is None:
                what, where, next_step, code = told
                failed = OtherRankError(
                    f"rank {rank} ({where}) has failed: {what}"
                    if where
                    else f"rank {rank} has failed: {what}",
                    next_step=next_step,
                )
                failed.exit_code = code
                raise failed
        if own is not None:
            raise own

    def agree(self, values: Mapping[str, Any], *, next_step: str) -> None:
        """Raise ConfigError on every rank where one has other values than rank 0, naming rank, machine and values."""
        said = self.of_all((socket.gethostname(), dict(values)))
        first = said[0][1]
        faults = [
            f"rank {rank} on {host} has {name} {theirs[name]}, rank 0 on {said[0][0]} has {first[name]}"
            for rank, (host, theirs) in enumerate(said)
            for name in first
            if theirs[name] != first[name]
        ]
        if faults:
            raise ConfigError(
                "the ranks of this run do not belong together", faults=faults, next_step=next_step
            )


@contextmanager
def meet(device: str = "auto", *, patience_s: float = 300.0) -> Iterator[Ranks]:
    """This process's place in the run, from `torchrun`'s environment; gloo on a CPU, NCCL on GPUs.

    device: `auto` takes a GPU where there is one. patience_s: how long ranks wait for one before it is named. Raises
    ConfigError for a device that cannot be used.
    """
    place = usable_device(device)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Ranks(device=place)
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=_PATIENCE)
    watch = Watchdog(dist.get_rank(), dist.get_world_size(), patience_s)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), place, watch)
    finally:
        watch.close()
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


def _told(error: Exception) -> tuple[str, str | None, str | None, int]:
    """(what, where, what to do next, exit code) of an error, for other ranks."""
    if isinstance(error, InkplexError):
        return error.what, error.where, error.next_step, error.exit_code
    return f"{type(error).__name__}: {error}", None, None, 1


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
