"""Blocks are used again once nothing looks at them, and not before."""

from __future__ import annotations

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.loader import make_loader
from inkplex_data.loader.buffers import GRAIN, BufferPool
from inkplex_data.store.reader import Store


def test_a_block_comes_back_when_its_last_tensor_is_gone() -> None:
    pool = BufferPool(4 * GRAIN)
    tensor = pool.tensor(1_000)
    part = tensor[16:32].view(torch.bfloat16)
    array = part.view(torch.int16).numpy()
    place = tensor.data_ptr()
    del tensor, part
    other = pool.tensor(10)
    assert other.data_ptr() != place  # an array still looks at the first block
    del array
    assert pool.tensor(GRAIN).data_ptr() == place
    assert pool.allocated_bytes == 2 * GRAIN


def test_the_smallest_block_that_fits_is_taken() -> None:
    pool = BufferPool(10 * GRAIN)
    held = [pool.tensor(size * GRAIN) for size in (3, 1, 2)]
    places = [tensor.data_ptr() for tensor in held]
    held.clear()
    assert pool.tensor(GRAIN + 1).data_ptr() == places[2]
    assert len(pool.tensor(7)) == 7


def test_memory_is_given_up_rather_than_kept_without_bound() -> None:
    pool = BufferPool(GRAIN)
    for size in range(1, 8):
        pool.tensor(size * GRAIN)
    # What is read ahead is at least one block of the largest size, beside the two in use.
    assert pool.allocated_bytes <= 3 * 7 * GRAIN
    many = [pool.tensor(GRAIN) for _ in range(30)]
    assert pool.allocated_bytes >= 30 * GRAIN
    many.clear()
    pool.tensor(1)
    assert pool.allocated_bytes <= 3 * 7 * GRAIN


sizes = st.lists(st.integers(0, 40 * GRAIN), max_size=12)


@given(before=sizes, after=sizes)
def test_small_tensors_never_hold_much_larger_blocks(before: list[int], after: list[int]) -> None:
    """Whatever was read before, blocks in use are bounded by the tensors on them: what is read ahead is."""
    pool = BufferPool(1_000 * GRAIN)
    used = [pool.tensor(size) for size in before]
    used.clear()
    held = [pool.tensor(size) for size in after]
    pool.clear()  # leaves the blocks in use
    assert pool.allocated_bytes <= sum(1.75 * len(tensor) + 1.5 * GRAIN for tensor in held)


def test_clearing_gives_up_what_is_not_in_use() -> None:
    pool = BufferPool(10 * GRAIN)
    held = pool.tensor(GRAIN)
    pool.tensor(2 * GRAIN)
    pool.clear()
    assert pool.allocated_bytes == GRAIN
    del held
    pool.clear()
    assert pool.allocated_bytes == 0


def test_a_tensor_outlives_its_pool() -> None:
    tensor = BufferPool(0).tensor(100)
    gc.collect()
    tensor.fill_(7)
    assert tensor.sum() == 700


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_reads_into_the_same_memory_again(store: Store, workers: int) -> None:
    one = make_loader(store, "train", seed=0, window_frames=40, workers=workers, prefetch_bytes=1)
    places = set()
    for _ in range(2):
        for batch in one:
            places.add(batch.block().data_ptr())
    # One that is read, one that is handed out, one that the loop still has.
    assert len(places) <= 3


def test_batches_that_are_kept_stay_as_they_are(store: Store) -> None:
    kept = list(make_loader(store, "train", seed=0, window_frames=40, workers=2))
    copies = [batch.block().clone() for batch in kept]
    for batch, again in zip(
        kept, make_loader(store, "train", seed=0, window_frames=40, workers=0), strict=True
    ):
        assert batch.codes.equal(again.codes)
    assert all(batch.block().equal(copy) for batch, copy in zip(kept, copies, strict=True))
