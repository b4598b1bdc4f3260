"""Pieces of any size cut into blocks of one size."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import numpy as np

from inkplex_data.audio.decoders import DecodeStopped, Samples


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


class BlockReader(Iterator[Samples]):
    """Blocks of one decoding pass: float32 [channels, n], every one full but the last.

    `samples` counts what was delivered so far. `fault` says why decoding broke off before the end of the
    file, or is None; `recoverable` is False where samples are missing from the middle, so that everything
    later is out of place.
    """

    def __init__(self, pieces: Iterator[Samples], block_samples: int) -> None:
        self.samples = 0
        self.fault: str | None = None
        self.recoverable = True
        self._blocks = self._cut(pieces, block_samples)

    def __next__(self) -> Samples:
        return next(self._blocks)

    def close(self) -> None:
        """Close the file before its end."""
        self._blocks.close()

    def _cut(self, pieces: Iterator[Samples], block_samples: int) -> Generator[Samples, None, None]:
        for block in rechunk(self._until_fault(pieces), block_samples):
            self.samples += block.shape[1]
            yield block

    def _until_fault(self, pieces: Iterator[Samples]) -> Iterator[Samples]:
        try:
            yield from pieces
        except DecodeStopped as stop:
            self.fault, self.recoverable = stop.reason, stop.recoverable
