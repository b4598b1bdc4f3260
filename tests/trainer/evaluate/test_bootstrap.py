"""The paired bootstrap: exact where it can be, ordered as it must be, and blind to what pairing removes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import UsageError
from inkplex_data.trainer.evaluate.bootstrap import Difference, paired_difference


def test_value_is_the_difference_of_means_over_all_targets() -> None:
    found = paired_difference([6.0, 4.0, 0.0], [3.0, 1.0, 0.0], [3, 1, 0], ["a", "b", "c"], resamples=50)
    assert found is not None
    assert found.value == pytest.approx(6 / 4)
    assert found.families == 2


def test_bound_matches_all_draws_of_two_families() -> None:
    """Two families have four equally likely draws, of which a quarter takes the worse one twice."""
    found = paired_difference([1.0, 5.0], [0.0, 0.0], [1, 1], ["a", "b"], resamples=4_000)
    assert found is not None
    assert found.lower == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 9)), min_size=2, max_size=8), st.floats(-2, 2))
def test_shifting_every_target_shifts_value_and_bound(calls: list[tuple[float, int]], shift: float) -> None:
    gaps, counts = np.array([gap for gap, _ in calls]), np.array([count for _, count in calls])
    families = [f"f{index}" for index in range(len(calls))]
    zero = np.zeros(len(calls))
    plain = paired_difference(gaps, zero, counts, families, resamples=200)
    moved = paired_difference(gaps + shift * counts, zero, counts, families, resamples=200)
    assert plain is not None and moved is not None and plain.lower is not None and moved.lower is not None
    assert moved.value == pytest.approx(plain.value + shift)
    assert moved.lower == pytest.approx(plain.lower + shift)
    assert plain.lower <= max(gaps / counts) + 1e-9


def test_what_both_losses_share_cancels() -> None:
    hard = np.random.default_rng(0).uniform(0, 1_000, 30)
    found = paired_difference(hard + 1, hard, np.ones(30), [str(index) for index in range(30)])
    assert found is not None and found.lower == pytest.approx(1.0)


def test_calls_of_one_family_are_not_independent() -> None:
    gaps = np.tile([1.0, -0.5], 20)
    alone = paired_difference(gaps, np.zeros(40), np.ones(40), [str(index) for index in range(40)])
    joined = paired_difference(gaps, np.zeros(40), np.ones(40), ["a", "b"] * 20)
    assert alone is not None and joined is not None and alone.lower is not None and joined.lower is not None
    assert alone.value == pytest.approx(joined.value)
    assert joined.lower == pytest.approx(-0.5) and alone.lower > 0


def test_bound_covers_the_truth_about_95_times_in_a_hundred() -> None:
    draw = np.random.default_rng(1)
    families = [str(index) for index in range(40)]
    missed = 0
    for _ in range(300):
        found = paired_difference(draw.normal(0, 1, 40), np.zeros(40), np.ones(40), families, resamples=400)
        assert found is not None and found.lower is not None
        missed += found.lower > 0
    assert 3 <= missed <= 33


@pytest.mark.parametrize(("families", "bound"), [(["a", "a"], None), ([], None)])
def test_one_family_says_nothing_about_others(families: list[str], bound: None) -> None:
    found = paired_difference([2.0] * len(families), [1.0] * len(families), [1] * len(families), families)
    if not families:
        assert found is None
    else:
        assert found == Difference(1.0, bound, 1)


def test_lengths_must_agree() -> None:
    with pytest.raises(UsageError, match="as many sums as calls"):
        paired_difference([1.0], [1.0], [1], ["a", "b"])
