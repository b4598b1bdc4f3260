from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.memory.tables import WHOLE
from inkplex_data.memory.versions import SessionClock, build_versions, shift_versions
from inkplex_data.memory.words import assemble_words
from tests.memory.sessions import Session, sessions, slow_versions


def tokens_at(*arrival_us: int, spelled: bytes = b" a") -> pl.DataFrame:
    count = len(arrival_us)
    return pl.DataFrame(
        {
            "call": [0] * count,
            "position": list(range(count)),
            "special": [False] * count,
            "bytes": [spelled] * count,
            "arrival_us": list(arrival_us),
        },
        schema_overrides={"bytes": pl.Binary, "arrival_us": pl.Int64},
    )


def test_golden_sessions(golden_sessions: list[dict[str, Any]]) -> None:
    for case in golden_sessions:
        clock = SessionClock(case["recording_starts_at_us"], case["prefix_frames"], case["steps"])
        found = build_versions(case["table"], clock, window=case["window"])
        assert [list(version) for version in found.rows()] == case["expected_versions"], case["id"]


@settings(max_examples=200, deadline=None)
@given(sessions())
def test_equals_the_rules_step_by_step(session: Session) -> None:
    found = build_versions(session.tokens, session.clock, window=session.window)
    assert found.rows() == slow_versions(session.tokens, session.clock, session.window)


@settings(max_examples=60, deadline=None)
@given(sessions(), st.lists(st.tuples(st.integers(0, 400), st.integers(1, 50)), max_size=3))
def test_words_assembled_once_serve_every_call(session: Session, calls: list[tuple[int, int]]) -> None:
    file = io.BytesIO()
    assemble_words(session.tokens).whole_limits(session.tokens).write_ipc(file)
    whole = pl.read_ipc(file.getvalue())
    for starts_at_frame, window in calls:
        clock = SessionClock(starts_at_frame * 80_000, 0, 40)
        found = build_versions(session.tokens, clock, window=window, whole=whole)
        assert found.equals(build_versions(session.tokens, clock, window=window))


@settings(max_examples=60, deadline=None)
@given(sessions(), st.integers(0, 20))
def test_a_prefix_shifts_the_recording_relative_versions(session: Session, prefix_frames: int) -> None:
    start_us, frames = session.clock.recording_starts_at_us, session.clock.frames
    if frames == 0:
        return
    relative = build_versions(session.tokens, SessionClock(start_us, 0, frames), window=session.window)
    composed = build_versions(
        session.tokens, SessionClock(start_us, prefix_frames, prefix_frames + frames), window=session.window
    )
    assert shift_versions(relative, prefix_frames).equals(composed)


@pytest.mark.parametrize("bucket", range(1, 15))
def test_age_changes_exactly_at_one_second_less_than_a_power_of_two(bucket: int) -> None:
    boundary_us = (2**bucket - 1) * 1_000_000
    for beside_us, expected in ((-1, bucket - 1), (0, bucket), (1, bucket)):
        versions = build_versions(tokens_at(0), SessionClock(boundary_us + beside_us, 0, 1))
        assert versions["age"].to_list() == [expected]


def test_age_and_recency_stop_at_their_last_bucket() -> None:
    versions = build_versions(tokens_at(-(2**60), *[0] * 2**17), SessionClock(0, 0, 1), window=2**18)
    assert versions.rows()[0] == (0, 0, 1, 16, 14, True)
    assert versions["recency"].to_list()[-4:] == [2, 1, 1, 0]


def test_the_window_holds_the_newest_tokens() -> None:
    versions = build_versions(tokens_at(0, 80_000, 160_000), SessionClock(0, 0, 4), window=1)
    assert versions.select("row", "start", "end").rows() == [(0, 0, 1), (1, 1, 2), (2, 2, 4)]


def test_a_word_is_whole_between_completion_and_the_eviction_of_its_first_token() -> None:
    tokens = tokens_at(0, 80_000, 160_000, 240_000).with_columns(bytes=pl.Series([b"a", b"b", b" c", b" "]))
    versions = build_versions(tokens, SessionClock(0, 0, 4), window=3)
    whole = versions.filter("whole").select("row", "start", "end").rows()
    assert whole == [(0, 2, 3), (1, 2, 3), (2, 3, 4)]


def test_times_at_the_ends_of_int64_do_not_overflow() -> None:
    tokens = tokens_at(-(2**63), 0, 2**63 - 1)
    versions = build_versions(tokens, SessionClock(2**61, 0, 2))
    assert versions.select("row", "age").rows() == [(0, 14), (1, 14)]
    with pytest.raises(ValueError, match="session time"):
        SessionClock(2**63 - 1, 0, 1)


def test_nothing_to_see() -> None:
    empty = build_versions(tokens_at(), SessionClock(0, 0, 5))
    assert empty.is_empty()
    assert empty.schema == build_versions(tokens_at(0), SessionClock(0, 0, 5)).schema
    assert build_versions(tokens_at(0), SessionClock(0, 0, 0)).equals(empty)
    assert build_versions(tokens_at(10**7), SessionClock(0, 0, 5)).equals(empty)
    assert shift_versions(empty, 9).equals(empty)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        build_versions(tokens_at(0), SessionClock(0, 0, 1), window=0)
    with pytest.raises(ValueError, match="words are those of 0 tokens"):
        build_versions(tokens_at(0), SessionClock(0, 0, 1), whole=pl.DataFrame(schema=WHOLE))
    with pytest.raises(ValueError, match="negative"):
        SessionClock(0, -1, 1)
    with pytest.raises(ValueError, match="-1 frames"):
        shift_versions(build_versions(tokens_at(0), SessionClock(0, 0, 1)), -1)
