"""Calls told apart by what their sidecars say."""

from __future__ import annotations

import polars as pl
import pytest

from inkplex_data.errors import UsageError
from inkplex_data.store.call_groups import TOLD, call_groups, chosen, parse_filter
from inkplex_data.store.format import CALLS

CALLS_TOLD = pl.DataFrame(
    {
        "call_id": ["a", "b", "c", "d"],
        "agent_origin": ["synthetic", None, "recorded", None],
        "caller_origin": ["recorded", "recorded", "recorded", None],
        "decisions": [["speak", "quiet", "speak"], [None], [], None],
        "target_statuses": [["complete"], ["unknown"], ["interrupted", "complete"], None],
        "target_writers": [[None, "w"], ["w"], None, None],
    },
    schema_overrides={name: CALLS[name] for name in TOLD},
)


def groups(by: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for call_id, group in call_groups(CALLS_TOLD, by).iter_rows():
        found.setdefault(group, []).append(call_id)
    return found


def test_a_call_is_in_the_group_of_each_of_its_targets() -> None:
    assert groups("decision") == {"quiet": ["a"], "speak": ["a"]}
    assert groups("status") == {"complete": ["a", "c"], "interrupted": ["c"], "unknown": ["b"]}
    assert groups("writer") == {"w": ["a", "b"]}


def test_an_origin_is_that_of_both_sides() -> None:
    assert groups("origin") == {
        "recorded, recorded": ["c"],
        "synthetic, recorded": ["a"],
        "unknown, recorded": ["b"],
    }


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        ([], "abcd"),
        (["decisions=quiet"], "a"),
        (["caller_origin=recorded"], "abc"),
        (["agent_origin=recorded", "agent_origin=synthetic"], "ac"),
        (["caller_origin=recorded", "target_statuses=complete", "target_writers=w"], "a"),
        (["decisions=clarify"], ""),
    ],
)
def test_calls_are_chosen_by_all_columns_and_any_value(texts: list[str], left: str) -> None:
    assert "".join(chosen(CALLS_TOLD, parse_filter(texts))["call_id"]) == left


def test_a_filter_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be chosen by 'sidecar'"):
        parse_filter(["sidecar=x"])
    with pytest.raises(UsageError, match="'decisions' is no COLUMN=VALUE"):
        parse_filter(["decisions"])
