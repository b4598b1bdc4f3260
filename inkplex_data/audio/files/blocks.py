"""Pieces of any size cut into blocks of one size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from inkplex_data.audio.files.decoders import DecodeStopped, Samples

T = TypeVar("T")


def rechunk(pieces: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same samples [n] or [channels, n] in chunks of `size`, the last one shorter; none where there are none."""
    held: list[Samples] = []
    held_samples = 0
    for piece in pieces:
        held.append(piece)
        held_samples += piece.shape[-1]
        if held_samples < size:
            continue
        joined = np.concatenate(held, axis=-1)
        whole = held_samples - held_samples % size
        for start in range(0, whole, size):
            yield joined[..., start : start + size]
        held, held_samples = [joined[..., whole:]], held_samples - whole
    if held_samples:
        yield np.concatenate(held, axis=-1)


def twice(items: Iterable[T]) -> tuple[Iterator[T], Iterator[T]]:
    """The same items for two readers that go in step; what one is ahead of the other is held, and nothing else.

    `itertools.tee` would keep up to 57 items that both have read, which are tens of megabytes of audio.
    """
    source = iter(items)

    def read(own: deque[T], other: deque[T]) -> Iterator[T]:
        while True:
            if not own:
                try:
                    item = next(source)
                except StopIteration:
                    return
                own.append(item)
                other.append(item)
                del item
            yield own.popleft()

    one, other = deque[T](), deque[T]()
    return read(one, other), read(other, one)


@dataclass
class _Ending:
    fault: str | None = None
    recoverable: bool = True


class BlockReader(Iterator[Samples]):
    """Blocks of one decoding pass: float32 [channels, n], every one full but the last.

    `samples` counts what was delivered so far. `fault` says why decoding broke off before the end of the
    file, or is None; `recoverable` is False where samples are missing from the middle, so that everything
    later is out of place. The file is closed at its end, or when the reader is dropped.
    """

    def __init__(self, pieces: Iterable[Samples], block_samples: int) -> None:
        self.samples = 0
        # Apart from self: a reader in a cycle with its generator would hold the file until a collection.
        self._ending = _Ending()
        self._blocks = rechunk(_until_fault(pieces, self._ending), block_samples)

    def __next__(self) -> Samples:
        block = next(self._blocks)
        self.samples += block.shape[1]
        return block

    @property
    def fault(self) -> str | None:
        return self._ending.fault

    @property
    def recoverable(self) -> bool:
        return self._ending.recoverable


def _until_fault(pieces: Iterable[Samples], ending: _Ending) -> Iterator[Samples]:
    try:
        yield from pieces
    except DecodeStopped as stop:
        ending.fault, ending.recoverable = stop.reason, stop.recoverable
