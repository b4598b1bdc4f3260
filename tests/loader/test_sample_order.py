"""Order as arithmetic: bijections, fair mixtures, and ranks that share a sequence whatever their number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import UsageError
from inkplex_data.loader.sample_order import Mixture, Permutation, sample_groups, share


@given(st.integers(0, 400), st.integers(0, 2**64), st.integers(0, 5))
def test_a_permutation_is_a_bijection(size: int, seed: int, lap: int) -> None:
    permutation = Permutation(size, seed, lap)
    assert sorted(permutation[index] for index in range(size)) == list(range(size))


def test_permutations_of_neighbouring_seeds_and_laps_differ() -> None:
    orders = {
        tuple(Permutation(50, seed, lap)[i] for i in range(50)) for seed in range(10) for lap in range(10)
    }
    assert len(orders) == 100


def test_a_permutation_favours_no_place() -> None:
    size, draws = 7, 3_000
    counts = [[0] * size for _ in range(size)]
    for seed in range(draws):
        permutation = Permutation(size, seed)
        for index in range(size):
            counts[index][permutation[index]] += 1
    expected = draws / size
    chi_squared = sum((count - expected) ** 2 / expected for row in counts for count in row)
    # 36 degrees of freedom; 80 is beyond the 99.99th percentile.
    assert chi_squared < 80


def test_a_permutation_of_a_huge_range_needs_no_memory() -> None:
    permutation = Permutation(10**15, 0)
    found = {permutation[index] for index in range(10**15 - 500, 10**15)}
    assert len(found) == 500
    assert max(found) < 10**15
    with pytest.raises(IndexError):
        permutation[10**15]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(0, 3))
def test_without_weights_everything_comes_once(sizes: list[int], epoch: int) -> None:
    mixture = Mixture(sizes)
    draws = [mixture.draw(epoch, index) for index in range(mixture.total)]
    assert sorted((draw.source, draw.index) for draw in draws) == [
        (source, index) for source, size in enumerate(sizes) for index in range(size)
    ]
    assert {draw.lap for draw in draws} == {epoch}


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0.25, 1, 1.5, 3])), min_size=1, max_size=4),
    st.data(),
)
def test_weights_are_the_share_of_every_stretch(stores: list[tuple[int, float]], data: st.DataObject) -> None:
    sizes, weights = zip(*stores, strict=True)
    mixture = Mixture(sizes, weights)
    draws = [mixture.draw(0, index) for index in range(mixture.total)]
    start = data.draw(st.integers(0, mixture.total))
    stop = data.draw(st.integers(start, mixture.total))
    for source, weight in enumerate(weights):
        drawn = sum(draw.source == source for draw in draws[start:stop])
        assert abs(drawn - (stop - start) * mixture.counts[source] / mixture.total) <= len(sizes)
        # Counts are whole numbers, so a share may be off by the rounding of each store's count.
        assert abs(mixture.counts[source] - mixture.total * weight / sum(weights)) <= len(sizes)
        assert {draw.index for draw in draws if draw.source == source} == set(range(sizes[source]))


def test_a_store_that_is_repeated_is_gone_through_evenly_over_epochs() -> None:
    mixture = Mixture([3, 10], [1, 2])
    assert mixture.counts == [5, 10]
    small = [
        (draw.lap, draw.index)
        for epoch in range(3)
        for draw in (mixture.draw(epoch, index) for index in range(mixture.total))
        if draw.source == 0
    ]
    assert small == [(lap, index) for lap in range(5) for index in range(3)]


@pytest.mark.parametrize("weights", [[1], [1, 0], [1, float("nan")], [1, float("inf")], [1, -2]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(UsageError):
        Mixture([3, 4], weights)


@given(st.integers(0, 60), st.integers(1, 5), st.integers(1, 9), st.data())
def test_ranks_share_each_turn(total: int, world_size: int, size: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, total))
    ranks = [
        list(sample_groups(start, total, rank=rank, world_size=world_size, size=size))
        for rank in range(world_size)
    ]
    at = start
    for of_ranks in zip(*ranks, strict=True):
        first, stop = of_ranks[0].first, of_ranks[0].stop
        assert first == at
        assert stop == min(first + size, total)
        assert sorted(index for turn in of_ranks for index in turn.own) == list(range(first, stop))
        for rank, turn in enumerate(of_ranks):
            assert len(turn.own) == share(stop - first, rank, world_size)
            assert [index - rank for index in turn.own] == list(range(first, stop - rank, world_size))
        at = stop
    assert at == total
