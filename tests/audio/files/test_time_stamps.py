"""Stamps against counts: what jumps is a hole or an overlap, and what only jitters, drifts or begins late is neither."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audio.files.time_stamps import Timeline

RATE, FRAME = 48_000, 960
MS = Fraction(1, 1_000)


def placed(stamps: list[int | None], tick_s: Fraction = MS, samples: int = FRAME) -> list[tuple[int, int]]:
    timeline = Timeline(RATE, tick_s)
    return [timeline.place(stamp, samples) for stamp in stamps]


@pytest.mark.parametrize("first", [0, -7, 5_000_000])
def test_a_jump_is_as_long_as_its_stamps_say_wherever_the_clock_begins(first: int) -> None:
    stamps = [first + 20 * k for k in (0, 1, 2, 53, 54)]
    assert placed(stamps) == [(0, 0), (0, 0), (0, 0), (48_000, 0), (0, 0)]


def test_one_lost_packet_is_a_hole() -> None:
    assert placed([0, 20, 60, 80]) == [(0, 0), (0, 0), (960, 0), (0, 0)]


def test_an_overlap_is_dropped_frame_by_frame() -> None:
    assert placed([0, 20, 40, 60, 30, 50, 70]) == [
        *[(0, 0)] * 4,
        (0, 960),
        (0, 960),
        (0, 480),
    ]


def test_frames_without_stamps_follow_each_other() -> None:
    assert placed([None, None, 40, None, 1_080]) == [(0, 0), (0, 0), (0, 0), (0, 0), (48_000, 0)]


def test_another_recording_behind_the_first_begins_the_clock_again() -> None:
    assert placed([0, 20, 40, 0, 20, 1_040]) == [*[(0, 0)] * 5, (48_000, 0)]


def test_a_clock_that_stands_still_drops_nothing() -> None:
    assert placed([0] * 50) == [(0, 0)] * 50


@given(
    jitter=st.lists(st.integers(-4, 4), min_size=1, max_size=300),
    drift=st.fractions(Fraction(-1, 500), Fraction(1, 500)),
)
def test_jitter_and_two_clocks_that_drift_apart_change_nothing(jitter: list[int], drift: Fraction) -> None:
    stamps: list[int | None] = [round(20 * k * (1 + drift)) + off for k, off in enumerate(jitter)]
    assert set(placed(stamps)) == {(0, 0)}


@given(st.data())
def test_no_stamp_is_farther_off_than_a_packet_after_lost_ones(data: st.DataObject) -> None:
    """Whichever packets are lost, and however the stamps are rounded, sound is where its stamp says."""
    kept = sorted(data.draw(st.sets(st.integers(0, 200), min_size=2)))
    frame = data.draw(st.sampled_from([480, 960, 1_024, 1_152, 2_880]))
    timeline, delivered = Timeline(RATE, MS), 0
    for number in kept:
        missing, overlap = timeline.place(round(Fraction(number * frame * 1_000, RATE)), frame)
        assert overlap == 0
        delivered += missing
        assert abs(delivered - (number - kept[0]) * frame) <= 2 * RATE * MS
        delivered += frame
