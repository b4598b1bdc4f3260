"""Which channel speaks alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audio.speaks_alone import alone_us, clear_side

STEPS = st.lists(st.booleans(), min_size=40, max_size=40)
SPANS = st.lists(st.tuples(st.integers(-50_000, 450_000), st.integers(-50_000, 450_000)), max_size=4)


@given(STEPS, STEPS, SPANS)
def test_every_step_that_a_span_touches_counts_once(
    first: list[bool], second: list[bool], spans: list[tuple[int, int]]
) -> None:
    """Beside a loop over steps."""
    wanted = [0, 0]
    for start, end in spans:
        for step, (a, b) in enumerate(zip(first, second, strict=True)):
            inside = max(start, 0) // 10_000 * 10_000 <= step * 10_000 < end
            wanted[0] += 10_000 * (inside and a and not b)
            wanted[1] += 10_000 * (inside and b and not a)
    assert alone_us(np.array([first, second]), spans) == tuple(wanted)
    assert alone_us(np.array([second, first]), spans) == tuple(wanted[::-1])


@pytest.mark.parametrize(
    ("alone", "side"),
    [
        ((0, 0), None),
        ((800_000, 200_000), 0),
        ((200_000, 800_000), 1),
        ((790_000, 210_000), None),
        ((249_000, 0), None),
        ((0, 250_000), 1),
    ],
)
def test_a_side_is_clear_with_four_fifths_and_enough(alone: tuple[int, int], side: int | None) -> None:
    assert clear_side(alone, least_us=250_000) == side
