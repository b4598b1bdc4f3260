"""Permitted updates: versions equal a sweep over the steps, and what lists do not say."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.corpus.sidecars.crop import crop
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.memory.permissions import Permitted, permitted_tokens
from inkplex_data.memory.versions import SessionClock, build_versions, shift_versions
from tests.memory.sessions import Session, Update, may_see, permissions, sessions, slow_versions
from tests.memory.test_versions import tokens_at


def sidecar_of(updates: list[Update], start_us: int) -> Sidecar:
    """A sidecar that says of a call what `updates` say of its recording."""

    def clip_s(us: int) -> float:
        return (us - start_us) / 1e6

    return Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "call"},
            "private_updates": {
                "updates": [
                    {
                        "id": f"u{at}",
                        "rows": [update.first, update.stop],
                        "available_at_s": clip_s(
                            min((begin for begin, _ in update.spans or ()), default=start_us)
                        ),
                    }
                    for at, update in enumerate(updates)
                ]
            },
            "masks": {
                "permitted_updates": [
                    {
                        "update": f"u{at}",
                        "start_s": clip_s(begin),
                        "end_s": None if end is None else clip_s(end),
                    }
                    for at, update in enumerate(updates)
                    for begin, end in update.spans or ()
                ]
            },
        }
    )


def permitted(updates: list[Update], session: Session) -> Permitted:
    start_us = session.clock.recording_starts_at_us
    found = permitted_tokens(sidecar_of(updates, start_us), len(session.tokens), start_us)
    assert found is not None
    return found


@settings(max_examples=120, deadline=None)
@given(sessions(), st.data())
def test_versions_equal_the_rules_step_by_step(session: Session, data: st.DataObject) -> None:
    updates = data.draw(permissions(session))
    found = build_versions(
        session.tokens, session.clock, window=session.window, permitted=permitted(updates, session)
    )
    assert found.rows() == slow_versions(session.tokens, session.clock, session.window, updates)


@settings(max_examples=25, deadline=None)
@given(sessions(), st.data())
def test_every_moment_of_every_token(session: Session, data: st.DataObject) -> None:
    updates = data.draw(permissions(session))
    allowed = permitted(updates, session)
    for us in session.clock.step_us().tolist():
        assert allowed.at(us).tolist() == [may_see(updates, row, us) for row in range(len(session.tokens))]


@settings(max_examples=25, deadline=None)
@given(sessions(), st.integers(0, 20), st.data())
def test_a_prefix_reads_what_the_first_frame_may(session: Session, prefix: int, data: st.DataObject) -> None:
    updates = data.draw(permissions(session))
    start_us, frames = session.clock.recording_starts_at_us, session.clock.frames
    if not frames:
        return
    clocks = SessionClock(start_us, 0, frames), SessionClock(start_us, prefix, prefix + frames)
    own, composed = (
        build_versions(session.tokens, clock, window=session.window, permitted=permitted(updates, session))
        for clock in clocks
    )
    assert shift_versions(own, prefix).equals(composed)


TOKENS = tokens_at(0, 0, 0, spelled=b"a ")
CLOCK = SessionClock(0, 0, 10)


def seen(masks: dict[str, Any] | None) -> dict[int, list[tuple[int, int]]]:
    """Steps at which each of three tokens is seen; row 0 is of update a, row 1 of b, row 2 of none."""
    groups: dict[str, Any] = {} if masks is None else {"masks": masks}
    sidecar = Sidecar.model_validate(
        {
            "schema": "inkplex/sidecar@1",
            "identity": {"clip_id": "call"},
            "private_updates": {
                "updates": [
                    {"id": "a", "rows": [0, 1], "available_at_s": 0},
                    {"id": "b", "rows": [1, 2], "available_at_s": 0},
                ]
            },
            **groups,
        }
    )
    found = build_versions(TOKENS, CLOCK, permitted=permitted_tokens(sidecar, 3, 0))
    return {
        row: [(s, e) for r, s, e in found.select("row", "start", "end").rows() if r == row]
        for row in range(3)
    }


NEVER: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
ALWAYS = {0: [(0, 10)], 1: [(0, 10)], 2: [(0, 10)]}


@pytest.mark.parametrize(
    ("masks", "steps"),
    [
        (None, ALWAYS),
        ({}, ALWAYS),
        ({"permitted_updates": None}, ALWAYS),
        ({"permitted_updates": []}, NEVER),
        ({"permitted_updates": [{"update": "a", "start_s": 0}]}, NEVER | {0: [(0, 10)]}),
        ({"permitted_updates": [{"update": "a", "start_s": 0, "end_s": 0}]}, NEVER),
        # A frame at the very end of an interval is past it, one at its start is in it.
        (
            {"permitted_updates": [{"update": "a", "start_s": 0.16, "end_s": 0.24}]},
            NEVER | {0: [(2, 3)]},
        ),
        (
            {
                "permitted_updates": [
                    {"update": "b", "start_s": 0.4},
                    {"update": "b", "start_s": 0, "end_s": 0.08},
                    {"update": "a", "start_s": 0.1, "end_s": 0.3},
                    {"update": "a", "start_s": 0.3, "end_s": 0.5},
                ]
            },
            {0: [(2, 7)], 1: [(0, 1), (5, 10)], 2: []},
        ),
    ],
)
def test_what_a_list_says_and_what_it_leaves_out(
    masks: dict[str, Any] | None, steps: dict[int, list[tuple[int, int]]]
) -> None:
    assert seen(masks) == steps


def test_tokens_that_no_frame_may_see_are_counted() -> None:
    updates = [Update(0, 1, [(0, None)]), Update(1, 3, None), Update(4, 5, [(9, 9)])]
    found = permitted_tokens(sidecar_of(updates, 0), 7, 0)
    assert found is not None and found.never == 6


@settings(max_examples=40, deadline=None)
@given(sessions(), st.data())
def test_a_crop_permits_in_its_time_what_the_whole_clip_does(session: Session, data: st.DataObject) -> None:
    updates, count = data.draw(permissions(session)), len(session.tokens)
    start_us, frames = session.clock.recording_starts_at_us, session.clock.frames
    first, stop = sorted((data.draw(st.integers(0, frames)), data.draw(st.integers(0, frames))))
    if first == stop:
        return
    whole = sidecar_of(updates, start_us)
    part = crop(whole, first * 80_000, stop * 80_000)
    ours = permitted_tokens(whole, count, start_us)
    theirs = permitted_tokens(part, count, start_us + first * 80_000)
    assert ours is not None and theirs is not None
    for step in range(first, stop):
        us = start_us + step * 80_000
        assert ours.at(us).tolist() == theirs.at(us).tolist()


def test_permissions_are_those_of_these_tokens() -> None:
    with pytest.raises(ValueError, match="the permissions are those of 2 tokens, not of these 3"):
        build_versions(TOKENS, CLOCK, permitted=permitted_tokens(sidecar_of([Update(0, 1, None)], 0), 2, 0))


def test_a_word_across_a_border_is_whole_only_while_both_sides_are_seen() -> None:
    tokens = pl.DataFrame(
        {"call": 0, "position": [0, 1], "special": False, "bytes": [b"pay", b"ment "], "arrival_us": 0}
    )
    sidecar = sidecar_of([Update(0, 1, [(0, None)]), Update(1, 2, [(160_000, 320_000)])], 0)
    found = build_versions(tokens, SessionClock(0, 0, 6), permitted=permitted_tokens(sidecar, 2, 0))
    steps = [row[1:3] for row in found.filter("whole").rows() if row[0] == 0]
    assert steps == [(2, 4)]
    assert [row[1:3] for row in found.rows() if row[0] == 1] == [(2, 4)]
