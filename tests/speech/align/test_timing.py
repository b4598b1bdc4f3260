"""Word spans: filled, long enough, disjoint, inside their stretch."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.speech.align.timing import MIN_WORD_US, filled, lengthened

spans = st.lists(
    st.tuples(st.integers(0, 2_000_000), st.integers(0, 400_000)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    min_size=1,
    max_size=12,
).map(sorted)


@given(spans, st.integers(0, 200_000), st.integers(800_000, 2_600_000))
def test_lengthened_words_are_long_enough_in_order_and_inside(given_spans, start_us, end_us):
    out = lengthened(given_spans, start_us, end_us)
    least_us = min(MIN_WORD_US, (end_us - start_us) // len(given_spans))
    assert len(out) == len(given_spans)
    assert all(end - start >= least_us for start, end in out)
    assert out[0][0] >= start_us
    assert out[-1][1] <= end_us
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(out))


def test_words_that_are_fine_stay_as_they_are():
    fine = [(100_000, 300_000), (300_000, 360_000), (500_000, 900_000)]
    assert lengthened(fine, 0, 1_000_000) == fine


def test_a_squeezed_end_is_spread_backwards():
    assert lengthened([(0, 500_000), (980_000, 990_000), (990_000, 1_000_000)], 0, 1_000_000) == [
        (0, 500_000),
        (880_000, 940_000),
        (940_000, 1_000_000),
    ]


def test_unknown_spans_share_the_gap_between_their_neighbours():
    assert filled([None, (200, 300), None, None, (500, 600), None], 0, 700) == [
        (0, 200),
        (200, 300),
        (300, 400),
        (400, 500),
        (500, 600),
        (600, 700),
    ]
