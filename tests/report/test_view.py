from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.clock import FRAME_US, session_us
from inkplex_data.grid import KINDS, MASK_AGENT, MASK_ALL, MASK_CALLER
from inkplex_data.memory.tables import KIND
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.report.clock_delays import Delay, clock_delays
from inkplex_data.report.view import Memory, PrefixSummary
from tests.memory.sessions import Session, permissions, sessions
from tests.memory.test_permissions import permitted
from tests.report.made import a_view, token_table, word_table


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-500_000, 3_000_000), st.sampled_from(KINDS)), max_size=60),
    st.integers(-1_000_000, 1_000_000),
    st.integers(1, 30),
    st.integers(1, 50),
)
def test_memory_is_what_every_frame_sees(
    tokens: list[tuple[int, str]], starts_at_us: int, frames: int, window: int
) -> None:
    memory = Memory.of(token_table(*tokens), starts_at_us=starts_at_us, frames=frames, window=window)
    seen_before = dict.fromkeys(KINDS, 0)
    for frame in range(frames):
        now_us = session_us(frame, recording_starts_at_us=starts_at_us, prefix_frames=0)
        seen = {kind: sum(own == kind and at <= now_us for at, own in tokens) for kind in KINDS}
        assert memory.live[frame] == min(sum(seen.values()), window)
        if frame == 0:
            assert memory.before == {kind: count for kind, count in seen.items() if count}
        else:
            assert memory.arrivals[:, frame].tolist() == [seen[kind] - seen_before[kind] for kind in KINDS]
        seen_before = seen
    assert memory.later == len(tokens) - sum(seen_before.values())
    assert not memory.arrivals[:, 0].any()


@settings(max_examples=25, deadline=None)
@given(sessions(), st.data())
def test_memory_with_permissions_is_what_the_versions_show(session: Session, data: st.DataObject) -> None:
    tokens = session.tokens.sort("call", "position").with_columns(kind=pl.lit("user", KIND))
    allowed = permitted(data.draw(permissions(session)), session)
    clock = SessionClock(session.clock.recording_starts_at_us, 0, session.clock.frames)
    memory = Memory.of(
        tokens,
        starts_at_us=clock.recording_starts_at_us,
        frames=clock.frames,
        window=session.window,
        permitted=allowed,
    )
    versions = build_versions(tokens, clock, window=session.window, permitted=allowed)
    shown = [
        versions.filter((pl.col("start") <= step) & (step < pl.col("end"))).height
        for step in range(clock.frames)
    ]
    assert memory.live.tolist() == shown
    seen = sum(memory.before.values()) + memory.arrivals.sum()
    assert seen == versions["row"].n_unique()


def test_delays_between_the_clocks() -> None:
    tokens = pl.DataFrame(
        {
            "source_us": [0, None, 5],
            "available_us": [1_500_000, 3, 2_000_005],
            "ready_us": pl.Series([None, None, None], dtype=pl.Int64),
        }
    )
    assert list(map(str, clock_delays(tokens))) == ["event to available 1.500 s (at most 2.000 s)"]
    assert clock_delays(tokens)[0].tokens == 2
    ready = tokens.with_columns(ready_us=pl.col("available_us") + pl.Series([10, 80_000, -5]))
    assert clock_delays(ready)[1] == Delay("available to ready", 3, 10, 80_000)


def test_a_token_that_arrives_on_a_frame_is_seen_by_it() -> None:
    memory = Memory.of(
        token_table((FRAME_US, "user"), (FRAME_US + 1, "user")), starts_at_us=0, frames=4, window=9
    )
    assert memory.live.tolist() == [0, 1, 2, 2]


def test_spoken_frames_are_those_that_a_word_touches() -> None:
    view = a_view(
        12, words=word_table(("a", 80_000, 240_001, "SPEAKER_MAIN", 1, [1], 1), ("b", 0, 1, "X", -1, [], 0))
    )
    assert np.flatnonzero(view.spoken("agent")).tolist() == [1, 2, 3]
    assert np.flatnonzero(view.spoken("caller")).tolist() == [0]


def test_gaps_are_the_frames_whose_bit_is_not_set() -> None:
    mask = np.full(40, MASK_ALL, np.uint8)
    mask[3] = MASK_AGENT
    mask[4] = MASK_CALLER
    view = a_view(mask=mask)
    assert np.flatnonzero(view.gaps("text")).tolist() == [3, 4]
    assert np.flatnonzero(view.gaps("agent")).tolist() == [4]
    assert np.flatnonzero(view.gaps("caller")).tolist() == [3]
    assert not a_view(mask=None).gaps("text").any()


def test_parts_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="agent_db has 39 values for 40 frames"):
        a_view(agent_db=np.zeros(39, np.float32))


@pytest.mark.parametrize(
    ("prefix", "parts"),
    [
        (PrefixSummary(12, None, None, 0, 0), [("silence", 6), ("silence", 6)]),
        (
            PrefixSummary(109, "brian", "a role", 59, 38),
            [("voice brian", 59), ("silence", 6), ("role", 38), ("silence", 6)],
        ),
        (PrefixSummary(0, None, None, 0, 0), []),
    ],
)
def test_prefix_parts_add_up(prefix: PrefixSummary, parts: list[tuple[str, int]]) -> None:
    assert prefix.parts() == parts
    assert sum(frames for _, frames in parts) == prefix.frames
