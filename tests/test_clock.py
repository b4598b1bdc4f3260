"""The grid in exact integers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data import clock


@given(st.integers(0, 10**12))
def test_frames_are_the_ceiling(samples: int) -> None:
    assert clock.frames_of_samples(samples) == math.ceil(Fraction(samples, 1920))


def test_every_hundredth_of_two_hours_lands_on_its_frame() -> None:
    # In floating point, 4,586 of these land one frame early (DESIGN §2); with integers none does.
    wrong_in_floats = 0
    for hundredth in range(2 * 3600 * 100 + 1):
        start_us = clock.seconds_to_us(hundredth / 100)
        assert start_us == hundredth * 10_000
        assert start_us // clock.FRAME_US == hundredth // 8
        wrong_in_floats += int(hundredth / 100 * 12.5) != hundredth // 8
    assert wrong_in_floats == 4_586


@pytest.mark.parametrize(
    ("seconds", "microseconds"),
    [
        (2.32, 2_320_000),
        ("0.1", 100_000),
        (3, 3_000_000),
        (1e-7, 0),
        (0.0000005, 0),
        (0.0000015, 2),
        (-0.25, -250_000),
    ],
)
def test_seconds_read_as_they_are_spelt(seconds: object, microseconds: int) -> None:
    assert clock.seconds_to_us(seconds) == microseconds  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, "nan", "soon", True, None, 1e300, [1.0], "sNaN"])
def test_what_is_no_time_is_refused(seconds: object) -> None:
    with pytest.raises(ValueError, match=r"second|time"):
        clock.seconds_to_us(seconds)  # type: ignore[arg-type]


@given(st.integers(0, 10**9), st.sampled_from([8000, 16000, 22050, 24000, 44100, 48000]))
def test_resampled_length_loses_no_sound(samples: int, rate: int) -> None:
    count = clock.resampled_samples(samples, rate)
    assert count == math.ceil(Fraction(samples * 24_000, rate))


@given(st.integers(0, 5_000), st.integers(0, 3_000), st.integers(0, 10**12))
def test_prefix_steps_read_the_recording_start(step: int, prefix: int, start_us: int) -> None:
    time_us = clock.session_us(step, recording_starts_at_us=start_us, prefix_frames=prefix)
    assert time_us == (start_us if step <= prefix else start_us + (step - prefix) * 80_000)


@given(st.integers(0, 10**13), st.sampled_from([8000, 24000, 44100]))
def test_sample_times_are_within_half_a_microsecond(samples: int, rate: int) -> None:
    assert abs(Fraction(samples * 10**6, rate) - clock.samples_to_us(samples, rate)) <= Fraction(1, 2)
