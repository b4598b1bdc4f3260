"""Assignment to splits: seeded, stable under additions, never moving what is frozen."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.families.splits import (
    assign_splits,
    given_splits,
    linked_families,
    read_splits,
)
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import ConfigError, UsageError

NAMES = st.sets(st.text(min_size=1, max_size=6), max_size=20)
SPLIT = st.sampled_from(["train", "validation", "test"])


def test_shares_are_met_and_the_seed_matters() -> None:
    names = [f"family {index}" for index in range(20_000)]
    assigned = assign_splits(names, {})
    counts = {split: list(assigned.values()).count(split) for split in ("train", "validation", "test")}
    assert 900 < counts["validation"] < 1100
    assert 900 < counts["test"] < 1100
    assert assign_splits(names, {}) == assigned
    assert assign_splits(names, {}, seed=1) != assigned
    assert set(assign_splits(names, {}, {"validation": 0.0, "test": 0.0}).values()) == {"train"}


@given(NAMES, NAMES, st.dictionaries(st.text(min_size=1, max_size=6), SPLIT), st.integers(0, 5))
def test_adding_families_moves_none(
    first: set[str], more: set[str], frozen: dict[str, str], seed: int
) -> None:
    fractions = {"validation": 0.3, "test": 0.3}
    before = assign_splits(first, frozen, fractions, seed)
    after = assign_splits(first | more, {**frozen, **before}, fractions, seed)
    assert {name: after[name] for name in first} == before
    assert all(after[name] == split for name, split in frozen.items() if name in after)
    assert list(after) == sorted(first | more)
    assert assign_splits(first | more, frozen, fractions, seed) == after


def test_given_splits_count_and_frozen_ones_win() -> None:
    frozen, given_ = {"a": "test"}, {"a": "train", "b": "validation"}
    assert assign_splits(["a", "b"], frozen, given=given_) == {"a": "test", "b": "validation"}


@given(NAMES.filter(lambda names: len(names) > 1), st.integers(0, 9))
def test_linked_families_share_a_split(names: set[str], seed: int) -> None:
    ordered = sorted(names)
    chain = [set(pair) for pair in pairwise(ordered)]
    fractions = {"validation": 0.4, "test": 0.4}
    assert len(set(assign_splits(names, {}, fractions, seed, together=chain).values())) == 1
    frozen = {ordered[-1]: "test"}
    assert set(assign_splits(names, frozen, fractions, seed, together=chain).values()) == {"test"}


def test_linked_families_in_two_splits_are_an_error() -> None:
    with pytest.raises(UsageError, match=r"'a' \(train\) and 'b' \(test\) share a recording"):
        assign_splits(["a", "b"], {"a": "train"}, given={"b": "test"}, together=[{"a", "b"}])
    with pytest.raises(UsageError, match="less than 1"):
        assign_splits(["a"], {}, {"validation": 0.5, "test": 0.5})


def test_links_and_statements_of_a_corpus(tmp_path: Path) -> None:
    for name in ("a.wav", "r.jsonl"):
        (tmp_path / name).write_bytes(b"x")
    lines = [
        {"id": "1", "path": "a.wav", "recording": "r.jsonl", "family": "f", "split": "test"},
        {"id": "2", "path": "a.wav", "recording": "r.jsonl", "family": "g"},
        {"id": "3", "path": "a.wav", "family": "h"},
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    entries = read_corpus(tmp_path).entries
    assert linked_families(entries) == [{"f", "g"}]
    assert given_splits(entries) == {"f": "test"}
    assigned = assign_splits(
        [entry.family for entry in entries],
        {},
        given=given_splits(entries),
        together=linked_families(entries),
    )
    assert assigned["g"] == "test"


def test_splits_file(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text('{"schema": "inkplex/splits@1", "seed": 3, "families": {"a": "test"}}')
    assert read_splits(path).families == {"a": "test"}
    path.write_text('{"schema": "inkplex/splits@1", "families": {"a": "dev", "b": "eval"}}')
    with pytest.raises(ConfigError) as caught:
        read_splits(path)
    assert len(caught.value.faults) == 2
