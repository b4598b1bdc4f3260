"""Frame levels against a plain loop over frames."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.levels import FLOOR_DB, frame_energy_db
from inkplex_data.clock import FRAME_SAMPLES, frames_of_samples
from tests.audio.made import noise


def by_loop(samples: np.ndarray) -> list[float]:
    levels = []
    for start in range(0, len(samples), FRAME_SAMPLES):
        power = np.mean(samples[start : start + FRAME_SAMPLES].astype(np.float64) ** 2)
        levels.append(max(10 * np.log10(power) if power else FLOOR_DB, FLOOR_DB))
    return levels


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 20_000), st.lists(st.integers(0, 5_000), max_size=6))
def test_levels_are_those_of_a_loop_whatever_the_chunks(samples: int, sizes: list[int]) -> None:
    values = noise(samples, 1, seed=samples)[0]
    ends = np.cumsum(sizes)
    levels = frame_energy_db(np.split(values, ends[ends < samples]))
    assert levels.dtype == np.float32 and levels.shape == (frames_of_samples(samples),)
    np.testing.assert_allclose(levels, by_loop(values), atol=1e-4)


def test_known_levels() -> None:
    square = np.full(FRAME_SAMPLES, 0.1, np.float32)
    assert np.allclose(
        frame_energy_db([square, np.zeros(FRAME_SAMPLES, np.float32)]), [-20, FLOOR_DB], atol=1e-4
    )


def test_batches_meet_without_a_seam() -> None:
    values = noise(1_201 * FRAME_SAMPLES + 5, 1)[0]
    np.testing.assert_allclose(frame_energy_db([values]), by_loop(values), atol=1e-4)
