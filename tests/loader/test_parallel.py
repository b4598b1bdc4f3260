"""States read by several threads are those that one thread reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import StoreCorruptError
from inkplex_data.loader.parallel import ParallelReader, parts
from inkplex_data.store.arrays.states_geometry import StatesGeometry, shard_key
from inkplex_data.store.arrays.states_write import StatesReader, StatesWriter

ROWS = 300
INNER_ROWS = 8


@pytest.fixture
def states(tmp_path: Path) -> StatesReader:
    values = np.random.default_rng(0).integers(0, 2**16, (ROWS, 3, 16), dtype=np.uint16)
    with StatesWriter(tmp_path / "states", 16, inner_rows=INNER_ROWS, shard_rows=64) as writer:
        writer.append(values)
    return StatesReader(tmp_path / "states")


@given(st.integers(0, 2_000), st.integers(0, 2_000), st.integers(1, 9))
def test_parts_follow_each_other_and_end_between_chunks(start: int, rows: int, count: int) -> None:
    geometry = StatesGeometry(4_000, 3, 8, 16, 160)
    spans = parts(start, start + rows, geometry, count)
    assert [row for first, last in spans for row in range(first, last)] == list(range(start, start + rows))
    assert all(last % 16 == 0 for _, last in spans[:-1])
    sizes = [last - first for first, last in spans]
    assert len(sizes) <= count and max(sizes, default=0) - min(sizes, default=0) < 3 * 16


@pytest.mark.parametrize(("threads", "ahead_bytes"), [(0, 1), (1, 1), (3, 1), (3, 20_000), (3, 10**9)])
@pytest.mark.parametrize(("start", "stop"), [(0, ROWS), (5, 299), (70, 75), (9, 9)])
def test_the_same_rows(states: StatesReader, threads: int, ahead_bytes: int, start: int, stop: int) -> None:
    out = torch.empty(stop - start, 3, 16, dtype=torch.bfloat16)
    reader = ParallelReader(threads, ahead_bytes)
    for _ in range(2):  # closed readers start anew
        out.zero_()
        with reader.reading(states, start, stop, out):
            pass
        reader.close()
        assert np.array_equal(out.view(torch.int16).numpy().view(np.uint16), states.read_rows(start, stop))


def test_damage_in_any_part_is_an_error(states: StatesReader, tmp_path: Path) -> None:
    shard = tmp_path / "states" / shard_key(2)
    content = bytearray(shard.read_bytes())
    content[40] ^= 1
    shard.write_bytes(content)
    out = torch.empty(ROWS, 3, 16, dtype=torch.bfloat16)
    with (
        pytest.raises(StoreCorruptError, match="wrong checksum"),
        ParallelReader(2, 1).reading(states, 0, ROWS, out),
    ):
        pass
