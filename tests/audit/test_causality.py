from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inkplex_data.audit.causality import DatedTokens, Permission, audit_evidence, audit_versions
from inkplex_data.errors import CausalityError
from inkplex_data.memory.versions import SessionClock, build_versions
from tests.memory.sessions import Session, permissions, sessions
from tests.memory.test_permissions import permitted


def visibility(versions: pl.DataFrame) -> dict[tuple[int, int], list[tuple]]:
    """What each (row, step) shows."""
    shown: dict[tuple[int, int], list[tuple]] = {}
    for row, start, end, *state in versions.rows():
        for step in range(start, end):
            shown.setdefault((row, step), []).append(tuple(state))
    return shown


def test_golden_sessions_pass(golden_sessions: list[dict[str, Any]]) -> None:
    for case in golden_sessions:
        clock = SessionClock(case["recording_starts_at_us"], case["prefix_frames"], case["steps"])
        schema = dict.fromkeys(("row", "start", "end", "recency", "age"), pl.Int64) | {"whole": pl.Boolean}
        versions = pl.DataFrame(case["expected_versions"], schema=schema, orient="row")
        audited = audit_versions(case["table"], clock, versions, window=case["window"])
        assert audited.comparisons == len(visibility(versions))


@settings(max_examples=50, deadline=None)
@given(sessions())
def test_what_the_builder_makes_passes(session: Session) -> None:
    versions = build_versions(session.tokens, session.clock, window=session.window)
    shuffled = versions.sample(fraction=1.0, shuffle=True, seed=0)
    assert audit_versions(session.tokens, session.clock, shuffled, window=session.window).versions == len(
        versions
    )


@settings(max_examples=120, deadline=None)
@given(sessions(), st.data())
def test_any_tampering_that_changes_what_is_seen_fails(session: Session, data: st.DataObject) -> None:
    versions = build_versions(session.tokens, session.clock, window=session.window)
    assume(len(versions))
    rows = [list(version) for version in versions.rows()]
    at = data.draw(st.integers(0, len(rows) - 1), label="version")
    column = data.draw(st.integers(-2, 5), label="column (−1 drop, −2 double)")
    if column == -1:
        del rows[at]
    elif column == -2:
        rows.append(list(rows[at]))
    elif column == 5:
        rows[at][5] = not rows[at][5]
    else:
        rows[at][column] += data.draw(st.sampled_from([-3, -1, 1, 2]))
        assume(min(rows[at][3:5]) >= 0)
    tampered = pl.DataFrame(rows, schema=versions.schema, orient="row")
    assume(visibility(tampered) != visibility(versions))
    with pytest.raises(CausalityError, match=r"step|row"):
        audit_versions(session.tokens, session.clock, tampered, window=session.window)


@settings(max_examples=50, deadline=None)
@given(sessions(), st.data())
def test_permitted_updates_are_proven_and_a_change_of_them_is_found(
    session: Session, data: st.DataObject
) -> None:
    updates, others = (data.draw(permissions(session), label=name) for name in ("permitted", "claimed"))
    found, claimed = (
        build_versions(
            session.tokens, session.clock, window=session.window, permitted=permitted(listed, session)
        )
        for listed in (updates, others)
    )
    rules = {
        "window": session.window,
        "permissions": [
            Permission(update.first, update.stop, tuple(update.spans or ())) for update in updates
        ],
    }
    audited = audit_versions(session.tokens, session.clock, found, **rules)
    assert audited.versions == len(found)
    if visibility(claimed) != visibility(found):
        with pytest.raises(CausalityError, match=r"step|row"):
            audit_versions(session.tokens, session.clock, claimed, **rules)


@settings(max_examples=60, deadline=None)
@given(sessions(), st.data())
def test_a_shifted_arrival_fails(session: Session, data: st.DataObject) -> None:
    versions = build_versions(session.tokens, session.clock, window=session.window)
    at = data.draw(st.integers(0, len(session.tokens) - 1))
    by_us = data.draw(st.sampled_from([-1_000_000, -80_000, -1, 1, 80_000, 5_000_000]))
    arrivals = session.tokens["arrival_us"].to_list()
    arrivals[at] += by_us
    shifted = session.tokens.with_columns(arrival_us=pl.Series(arrivals))
    expected = build_versions(shifted, session.clock, window=session.window)
    assume(visibility(expected) != visibility(versions))
    with pytest.raises(CausalityError):
        audit_versions(shifted, session.clock, versions, window=session.window)


TOKENS = pl.DataFrame(
    {
        "call": [0, 0, 0],
        "position": [0, 1, 2],
        "special": [False, False, False],
        "bytes": [b"a", b"b c", b" "],
        "arrival_us": [0, 160_000, 240_000],
    }
)
CLOCK = SessionClock(0, 0, 5)


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (1, {"start": 1}, r"step 1 .*80000 µs.*row 1 .*visible but arrives at 160000 µs"),
        (0, {"end": 5}, r"step 3 .*row 0 .*left the window at 240000 µs"),
        (0, {"start": 1}, r"step 0 .*row 0 .*not visible although it arrived at 0 µs"),
        (0, {"recency": 4}, r"step 0 .*recency bucket 4 instead of 0"),
        (0, {"age": 3}, r"step 0 .*age bucket 3 instead of 0"),
        (1, {"whole": True}, r"row 1 .*its words whole; they are complete from 240000 µs on"),
        (2, {"whole": True}, r"row 2 .*its words whole, but touches no word"),
        (0, {"start": 7}, r"version \[7, "),
        (0, {"row": 3}, "row 3, but the recording has 3 tokens"),
    ],
)
def test_the_message_names_call_row_step_and_times(row: int, change: dict[str, Any], message: str) -> None:
    versions = build_versions(TOKENS, CLOCK, window=2)
    at = versions["row"].to_list().index(row)
    if "end" in change:
        at += versions["row"].to_list().count(row) - 1
    rows = versions.to_dicts()
    rows[at] |= change
    with pytest.raises(CausalityError, match=message) as caught:
        audit_versions(
            TOKENS, CLOCK, pl.DataFrame(rows, schema=versions.schema), window=2, call_id="bill-dispute"
        )
    assert caught.value.where == "bill-dispute"


def test_stored_row_and_rank_are_checked() -> None:
    versions = build_versions(TOKENS, CLOCK)
    stored = TOKENS.with_columns(row=pl.Series([0, 1, 2]), rank=pl.Series([0, 1, 2]))
    audit_versions(stored, CLOCK, versions)
    with pytest.raises(CausalityError, match="row 1 is stored with rank 2, but has 1"):
        audit_versions(stored.with_columns(rank=pl.Series([0, 2, 1])), CLOCK, versions)


def test_evidence_is_not_before_its_availability() -> None:
    audit_evidence(TOKENS, [DatedTokens("update 1", 1, 3, 160_000), DatedTokens("empty", 3, 3, 10**9)])
    with pytest.raises(CausalityError, match=r"update 2: token row 1 arrives at 160000 µs.*160001 µs"):
        audit_evidence(TOKENS, [DatedTokens("update 2", 1, 3, 160_001)], call_id="c")
    with pytest.raises(CausalityError, match="rows 1 to 4 of a recording of 3"):
        audit_evidence(TOKENS, [DatedTokens("update 3", 1, 4, 0)])
