"""Which calls each part of a corpus has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import UsageError
from inkplex_data.pipeline.parts.cut_corpus import CorpusPart, PartName, cut_corpus


def entry(name: str, family: str, **more: Any) -> CallEntry:
    nothing = dict.fromkeys(
        (
            "words",
            "sidecar",
            "recording",
            "split",
            "role",
            "voice",
            "text_conditions",
            "duration_s",
            "channels",
        )
    )
    known = {"audio": Path(f"{name}.wav"), "recording_starts_at_us": 0, "source": name, "where": name}
    return CallEntry(call_id=name, family=family, **{**nothing, **known, **more})


def parts(entries: list[CallEntry], of: int) -> list[CorpusPart]:
    return [cut_corpus(entries, PartName(number, of)) for number in range(1, of + 1)]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12))
def test_every_call_is_in_one_part_and_families_are_whole(families: list[int], of: int) -> None:
    entries = [entry(f"c{place}", f"f{family}") for place, family in enumerate(families)]
    cut = parts(entries, of)
    places = sorted(ix for part in cut for ix in part.call_ix.values())
    assert places == list(range(len(entries))) and len({part.listing_sha256 for part in cut}) == 1
    for family in set(families):
        assert sum(any(one.family == f"f{family}" for one in part.entries) for part in cut) == 1
    assert all(entries[ix].call_id == name for part in cut for name, ix in part.call_ix.items())


def test_families_of_one_call_are_cut_evenly_and_in_order() -> None:
    cut = parts([entry(f"c{place}", f"f{place}") for place in range(10)], 4)
    assert [list(part.call_ix.values()) for part in cut] == [[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]]


def test_what_calls_have_in_common_keeps_them_together() -> None:
    entries = [
        entry("a", "1", marks=("source_id 'x'",)),
        entry("b", "2", recording=Path("r.jsonl")),
        entry("c", "3", marks=("source_id 'x'",), recording=Path("r.jsonl")),
        entry("d", "4"),
        entry("e", "4"),
        entry("f", "5"),
    ]
    assert [[one.call_id for one in part.entries] for part in parts(entries, 3)] == [
        ["a", "b", "c"],
        ["d", "e"],
        ["f"],
    ]
    assert (
        cut_corpus(entries, PartName(1, 2)).listing_sha256
        != cut_corpus(entries[:-1], PartName(1, 2)).listing_sha256
    )


@pytest.mark.parametrize(
    "text", ["", "3", "0/4", "5/4", "1/0", "a/b", "1/2/3", "-1/2", "1 / 2", "9999999999/9999999999"]
)
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(UsageError, match="is no part"):
        PartName.parse(text)
    assert str(PartName.parse("3/100")) == "3/100"
