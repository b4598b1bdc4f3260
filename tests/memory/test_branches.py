"""Branches derived of token tables, against the versions of the whole."""

from __future__ import annotations

import polars as pl
import pytest

from inkplex_data.errors import UsageError
from inkplex_data.memory.branches import (
    BRANCH_PAIRS,
    DERIVED,
    branch_pairs,
    clip_versions,
    derive,
    shared_rows,
    twin_kind,
)
from inkplex_data.memory.tables import KIND
from inkplex_data.memory.twins import counterfactual_pairs
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.format import EVIDENCE
from tests.memory.test_ownership import asked, tabulate

AT_US = 1_000_000
CLOCK = SessionClock(0, 3, 60)
FORK = 3 + 13  # the first step whose session time is at least AT_US


@pytest.fixture(scope="module")
def tokens() -> pl.DataFrame:
    return tabulate([asked(0, [0, 1, 300_000]), asked(1, [AT_US, AT_US, AT_US + 9], cached=(0, 3))])[0]


def seen(versions: pl.DataFrame, step: int) -> list[tuple[object, ...]]:
    rows = versions.filter(pl.col("start") <= step, pl.col("end") > step)
    return rows.select("row", "recency", "age", "whole").rows()


@pytest.mark.parametrize("kind", DERIVED)
def test_no_step_before_the_fork_tells_a_branch_from_the_whole(tokens: pl.DataFrame, kind: str) -> None:
    made = derive(kind, tokens, AT_US, delay_us=480_000, partner=tokens)  # type: ignore[arg-type]
    whole, versions = build_versions(tokens, CLOCK), build_versions(made.tokens, CLOCK)
    if made.until_us is not None:
        versions = clip_versions(versions, FORK)
    assert all(seen(versions, step) == seen(whole, step) for step in range(FORK))
    after = [len(seen(versions, step)) for step in (FORK, FORK + 5, FORK + 6, 59)]
    assert after == {
        "unchanged": [6, 6, 6, 6], "delayed": [3, 3, 6, 6], "absent": [3, 3, 3, 3],
        "irrelevant": [6, 6, 6, 6], "none": [0, 0, 0, 0],
    }[kind]  # fmt: skip


def test_a_word_that_the_result_would_complete_stays_open() -> None:
    """The last word of a request is whole once its last token has come: a token that never comes is still its last."""
    spelled = {"bytes": [b" half", b"way", b" "], "special": False, "arrival_us": [0, AT_US, AT_US]}
    tokens = pl.DataFrame({"call": 0, "position": range(3)} | spelled)
    versions = build_versions(derive("absent", tokens, AT_US).tokens, CLOCK)
    assert not versions["whole"].any() and versions["row"].unique().to_list() == [0]


def test_irrelevant_tokens_keep_their_places_and_bring_their_own_states(tokens: pl.DataFrame) -> None:
    partner = tokens.with_columns(
        bytes=pl.lit(b" other"), token_id=pl.lit(7), kind=pl.lit("setup").cast(KIND)
    )
    made = derive("irrelevant", tokens, AT_US, partner=partner)
    assert made.foreign.tolist() == [False] * 3 + [True] * 3
    assert made.tokens["bytes"].to_list()[3:] == [b" other"] * 3
    places = ["call", "position", "arrival_us"]
    assert made.tokens.select(places).equals(tokens.select(places))
    assert made.state_row.tolist() == [0, 1, 2, 3, 4, 5]
    results = partner.with_columns(kind=pl.Series(["setup"] * 2 + ["tool_result"] * 4, dtype=KIND))
    assert derive("irrelevant", tokens, AT_US, partner=results).state_row.tolist()[3:] == [0, 1, 0]


def test_what_cannot_be_derived_is_refused(tokens: pl.DataFrame) -> None:
    with pytest.raises(UsageError, match="comes later"):
        derive("delayed", tokens, AT_US)
    with pytest.raises(UsageError, match="another recording"):
        derive("irrelevant", tokens, AT_US)


def test_twins_share_rows_by_place_and_only_before_the_fork(tokens: pl.DataFrame) -> None:
    longer = tabulate([asked(0, [0, 1, 300_000]), asked(1, [AT_US] * 5, cached=(0, 3))])[0]
    row, shared = shared_rows(longer, tokens, AT_US)
    assert shared.tolist() == [True] * 3 + [False] * 5 and row.tolist() == list(range(8))


def evidence(*rows: dict[str, object]) -> pl.DataFrame:
    filled = [{"call_id": None, **dict.fromkeys(EVIDENCE), "kind": "tool_result", **row} for row in rows]
    return pl.DataFrame(filled, schema={"call_id": pl.String(), **EVIDENCE})


def test_the_kind_of_a_twin_is_what_its_evidence_says() -> None:
    found = evidence({"evidence_id": "a", "arrival_us": 9, "status": "succeeded"})
    failed = evidence({"evidence_id": "a", "arrival_us": 9, "status": "failed"})
    error = evidence({"evidence_id": "a", "arrival_us": 9, "kind": "tool_error"})
    corrected = evidence({"evidence_id": "a", "arrival_us": 9, "superseded_by": "b", "superseded_us": 12})
    nothing = evidence({"evidence_id": "a", "arrival_us": 2, "status": "succeeded"})
    kinds = [twin_kind(found, twin, 5) for twin in (found, failed, error, corrected, nothing)]
    assert kinds == ["other", "failed", "failed", "superseded", "absent"]


def test_pairs_are_listed_with_their_kind_for_both_calls() -> None:
    calls = pl.DataFrame(
        {
            "call_id": ["one", "two"],
            "recording_id": ["a", "b"],
            "recording_starts_at_us": [200_000, 200_000],
        }
    )
    pairs = counterfactual_pairs(calls, {"b": ("a", AT_US)})
    told = evidence(
        {"call_id": "one", "evidence_id": "r", "arrival_us": 800_000, "status": "succeeded"},
        {"call_id": "two", "evidence_id": "r", "arrival_us": 800_000, "status": "failed"},
    )
    table = branch_pairs(pairs, calls, told)
    assert dict(table.schema) == BRANCH_PAIRS
    one = table.filter(call_id="one").select("twin_call_id", "kind", "fork_us", "fork_frame").rows()
    assert ("two", "failed", AT_US, 10) in one and ("one~absent", "absent", AT_US, 10) in one
    assert table.filter(call_id="two", twin_call_id="one")["kind"].to_list() == ["other"]
    assert table.height == 2 * (1 + len(DERIVED))
