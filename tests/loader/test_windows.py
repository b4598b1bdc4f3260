"""Windows hold every frame once, and see at each step what the whole call sees there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.clock import FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.loader.windows import Cutter, VersionColumns, window_versions
from inkplex_data.memory.versions import SessionClock, build_versions, shift_versions
from tests.memory.sessions import Session, permissions, token_tables
from tests.memory.test_permissions import permitted


def columns(versions: pl.DataFrame) -> VersionColumns:
    return VersionColumns(
        **{name: versions[name].to_numpy() for name in ("row", "start", "end", "recency", "age", "whole")}
    )


def rows(versions: VersionColumns) -> list[tuple]:
    return sorted(zip(*(column.tolist() for column in vars(versions).values()), strict=True))


@given(
    st.integers(1, 500),
    st.integers(0, 30),
    st.integers(1, 90),
    st.sampled_from(["fixed", "seeded"]),
    st.data(),
)
def test_windows_hold_every_frame_once(
    frames: int, prefix: int, longest: int, cut: str, data: st.DataObject
) -> None:
    cutter = Cutter(cut, longest, context_frames=data.draw(st.integers(prefix + 1, 120)))
    count = cutter.count(frames, prefix)
    windows = [cutter.window(number, frames, prefix, 7, 0) for number in range(count)]
    assert windows[0][0] == 0
    assert windows[-1][1] == frames
    assert all(before[1] == after[0] for before, after in pairwise(windows))
    limit = min(longest, cutter.context_frames - prefix)
    assert all(0 < stop - first <= limit for first, stop in windows)
    # Not more windows than are needed, wherever the cuts are.
    assert count == -(-frames // limit)
    if cut == "fixed":
        assert [first for first, _ in windows] == list(range(0, frames, limit))


def test_seeded_cuts_move_with_every_lap_and_reach_every_place() -> None:
    cutter = Cutter("seeded", 10)
    cuts = {cutter.window(0, 25, 0, 0, lap)[1] for lap in range(200)}
    assert cuts == set(range(5, 11))


def test_by_default_a_window_is_what_the_prefix_leaves_of_the_context() -> None:
    assert Cutter().longest(12) == 2_988
    assert Cutter().window(1, 4_000, 12) == (2_988, 4_000)
    assert Cutter("whole").count(9_000, 12) == 1
    assert Cutter("whole").window(0, 9_000, 12) == (0, 9_000)


def test_a_prefix_that_fills_the_context_is_refused() -> None:
    assert Cutter().longest(2_999) == 1
    for cut in ("fixed", "whole"):
        with pytest.raises(UsageError, match="3,000 frames leaves no room"):
            Cutter(cut).count(10, 3_000)


@pytest.mark.parametrize("wrong", [{"cut": "anywhere"}, {"window_frames": 0}, {"context_frames": 0}])
def test_wrong_options_are_refused(wrong: dict) -> None:
    with pytest.raises(UsageError):
        Cutter(**wrong)


@settings(max_examples=60, deadline=None)
@given(token_tables(), st.integers(0, 40), st.integers(0, 9), st.integers(0, 220), st.data())
def test_a_window_sees_what_a_call_that_begins_there_sees(
    tokens: pl.DataFrame, frames: int, prefix: int, start_frame: int, data: st.DataObject
) -> None:
    """Its versions are, to the last one, those that are built for a call whose audio begins at its first frame."""
    first = data.draw(st.integers(0, frames))
    stop = data.draw(st.integers(first, frames))
    starts_at_us = start_frame * FRAME_US
    session = Session(tokens, SessionClock(starts_at_us, 0, frames), 20)
    allowed = data.draw(st.none() | permissions(session).map(lambda updates: permitted(updates, session)))
    whole = build_versions(tokens, session.clock, window=20, permitted=allowed)
    clock = SessionClock(starts_at_us + first * FRAME_US, prefix, prefix + stop - first)
    expected = build_versions(tokens, clock, window=20, permitted=allowed) if stop > first else whole.clear()
    assert rows(window_versions(columns(whole), first, stop, prefix)) == rows(columns(expected))


@given(token_tables(), st.integers(1, 40), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_a_whole_call_is_composed_as_the_store_composes_it(
    tokens: pl.DataFrame, frames: int, prefix: int
) -> None:
    versions = build_versions(tokens, SessionClock(0, 0, frames))
    got = window_versions(columns(versions), 0, frames, prefix)
    assert rows(got) == rows(columns(shift_versions(versions, prefix)))
    assert got.start.dtype == got.end.dtype == np.int32
