"""Pieces of any size cut into blocks of one size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from inkplex_data.audio.files.decoders import READ_SAMPLES, DecodeStopped, Jump, Piece, Samples

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


Span = tuple[int, int]


@dataclass
class _Found:
    """What a decoding pass has met so far, besides samples."""

    fault: str | None = None
    recoverable: bool = True
    holes: list[Span] = field(default_factory=list)
    overlaps: list[Span] = field(default_factory=list)


class BlockReader(Iterator[Samples]):
    """Blocks of one decoding pass: float32 [channels, n], every one full but the last.

    `samples` counts what was delivered so far. `fault` says why decoding broke off before the end of the
    file, or is None; `recoverable` is False where samples are missing from the middle and nothing tells how many, so
    that everything later is out of place. `holes` are the spans (first sample, one past the last) that are missing
    and were filled with zeros; `overlaps` tells (where, how many) samples were left out that came a second time. Both
    are ahead of `samples` by up to a block. The file is closed at its end, or when the reader is dropped.
    """

    def __init__(self, pieces: Iterable[Piece], block_samples: int) -> None:
        self.samples = 0
        # Apart from self: a reader in a cycle with its generator would hold the file until a collection.
        self._found = _Found()
        self._blocks = rechunk(_filled(pieces, self._found), block_samples)

    def __next__(self) -> Samples:
        block = next(self._blocks)
        self.samples += block.shape[1]
        return block

    @property
    def fault(self) -> str | None:
        return self._found.fault

    @property
    def recoverable(self) -> bool:
        return self._found.recoverable

    @property
    def holes(self) -> list[Span]:
        return self._found.holes

    @property
    def overlaps(self) -> list[Span]:
        return self._found.overlaps


def _filled(pieces: Iterable[Piece], found: _Found) -> Iterator[Samples]:
    """The samples, with zeros where some are missing. No stream begins with a jump."""
    done = channels = 0
    try:
        for piece in pieces:
            if not isinstance(piece, Jump):
                channels = len(piece)
                done += piece.shape[1]
                yield piece
                continue
            if piece.overlap:
                _add_overlap(found.overlaps, done + piece.missing, piece.overlap)
            if piece.missing:
                _append(found.holes, done, done + piece.missing)
                done += piece.missing
            for start in range(0, piece.missing, READ_SAMPLES):
                yield np.zeros((channels, min(READ_SAMPLES, piece.missing - start)), np.float32)
    except DecodeStopped as stop:
        found.fault, found.recoverable = stop.reason, stop.recoverable


def _append(spans: list[Span], start: int, end: int) -> None:
    """Add a span behind the others, or make the last one longer where both touch."""
    if spans and spans[-1][1] == start:
        start = spans.pop()[0]
    spans.append((start, end))


def _add_overlap(overlaps: list[Span], at: int, samples: int) -> None:
    """Note `samples` left out at `at`; a long overlap comes frame by frame, all of it at one place."""
    if overlaps and overlaps[-1][0] == at:
        samples += overlaps.pop()[1]
    overlaps.append((at, samples))
