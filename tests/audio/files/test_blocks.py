"""Cutting into blocks loses and moves nothing."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audio.files.blocks import BlockReader, rechunk, twice
from inkplex_data.audio.files.decoders import DecodeStopped, Samples


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30), st.integers(1, 3))
def test_rechunk_keeps_every_sample_in_order(sizes: list[int], size: int, channels: int) -> None:
    values = np.arange(channels * sum(sizes), dtype=np.float32).reshape(channels, -1)
    pieces = np.split(values, np.cumsum(sizes)[:-1], axis=1) if sizes else []
    chunks = list(rechunk(pieces, size))
    assert all(chunk.shape == (channels, size) for chunk in chunks[:-1])
    assert all(0 < chunk.shape[1] <= size for chunk in chunks)
    assert np.array_equal(np.concatenate([np.zeros((channels, 0), np.float32), *chunks], axis=1), values)


def test_a_fault_comes_after_everything_before_it() -> None:
    def pieces() -> Iterator[Samples]:
        yield np.ones((1, 5), np.float32)
        raise DecodeStopped("broken", recoverable=False)

    reader = BlockReader(pieces(), 4)
    assert [block.shape[1] for block in reader] == [4, 1]
    assert (reader.samples, reader.fault, reader.recoverable) == (5, "broken", False)


def test_two_readers_share_one_pass() -> None:
    """Each gets every item; what both have read is let go."""
    blocks = [np.zeros(3, np.float32) for _ in range(80)]
    alive = [weakref.ref(block) for block in blocks]
    one, other = twice(blocks.pop(0) for _ in range(80))
    assert all(first is second for first, second in itertools.islice(zip(one, other, strict=True), 30))
    assert sum(block() is not None for block in alive) <= 51
    ahead = [next(one) for _ in range(20)]
    assert all(first is second for first, second in zip(ahead, other, strict=False))
    assert len(list(one)) == len(list(other)) == 30
