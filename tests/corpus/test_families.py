"""What makes calls one family: in common, however long the way, and never across splits."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.corpus.families.joined import Link, family_links, join_families, marks_of
from inkplex_data.corpus.families.splits import assign_splits
from inkplex_data.corpus.sidecars.sidecar_models import Identity


def link(call_id: str, family: str, owner: str, owner_family: str) -> Link:
    return Link(call_id, family, owner, owner_family, "the same source_id 's'")


def test_families_that_are_linked_become_one() -> None:
    links = [
        link("b", "fb", "a", "fa"),
        link("c", "fc", "b", "fb"),
        link("d", "fd", "a", "fa"),
        link("p", "published", "a", "fa"),
    ]
    joined = join_families(
        links, frozen={"published"}, given={"fd": "test", "fa": "train", "published": "train"}
    )
    assert joined.part_of == {"fb": "published", "fc": "published", "fa": "published"}
    assert joined.why["fc"] == "call 'c' has the same source_id 's' as call 'b' of family 'fb'"
    assert list(joined.refused) == ["d"] and "in different splits" in joined.refused["d"]
    assert join_families([], frozen=(), given={}).part_of == {}


def test_a_link_reaches_through_what_lies_in_one_split() -> None:
    """`b` reads the recording of `c`, which the corpus puts into test: `a`, of train, must not become its family."""
    joined = join_families(
        [link("b", "fb", "a", "fa")],
        frozen=(),
        given={"fa": "train", "fc": "test"},
        together=[{"fb", "fc"}],
    )
    assert list(joined.refused) == ["b"] and not joined.part_of


def test_each_mark_links_and_says_why() -> None:
    marks = marks_of(
        Identity.model_validate(
            {
                "clip_id": "c",
                "source_id": "s",
                "conversation_id": "v",
                "references": [{"path": "x"}, {"path": "y", "sha256": "0" * 64}],
            }
        )
    )
    assert marks == ("source_id 's'", "conversation_id 'v'", "reference 0000000000000000")
    assert marks_of(Identity.model_validate({"clip_id": "c"})) == ()
    for mark in marks:
        (found,) = family_links([("two", "f2", marks)], published=[("one", "f1", [mark])])
        assert (found.owner, found.what) == ("one", f"the same {mark}")
    assert family_links([("two", "f", marks), ("one", "f", marks)]) == []


def test_calls_of_one_conversation_never_differ_in_split() -> None:
    """Over 1,000 seeds, whatever families the calls are given, which of them are frozen, and what lies between them."""
    for seed in range(1_000):
        random = Random(seed)
        calls = [
            (
                f"c{index}",
                f"f{random.randrange(9)}",
                tuple({f"{name} {random.randrange(6)}" for name in random.sample("sv", random.randrange(3))}),
            )
            for index in range(12)
        ]
        families = [family for _, family, _ in calls]
        frozen = {family: random.choice(["train", "test"]) for family in random.sample(families, 2)}
        joined = join_families(family_links(calls), frozen=frozen, given=frozen)
        kept = [
            (joined.part_of.get(family, family), marks)
            for call_id, family, marks in calls
            if call_id not in joined.refused
        ]
        splits = assign_splits({family for family, _ in kept}, frozen, {"validation": 0.3, "test": 0.3}, seed)
        by_mark: dict[str, set[str]] = {}
        for family, marks in kept:
            for mark in marks:
                by_mark.setdefault(mark, set()).add(splits[family])
        assert all(len(found) == 1 for found in by_mark.values()), (seed, by_mark)


MARKS = st.frozensets(st.sampled_from("abcdefgh"), max_size=3)


@settings(max_examples=100)
@given(st.lists(MARKS, max_size=8))
def test_families_are_the_connected_parts(marks: list[frozenset[str]]) -> None:
    calls = [(str(index), str(index), sorted(own)) for index, own in enumerate(marks)]
    joined = join_families(family_links(calls), frozen=(), given={})
    parts = [{index} for index in range(len(marks))]
    for index, own in enumerate(marks):
        touched = [part for part in parts if index in part or any(own & marks[other] for other in part)]
        parts = [part for part in parts if part not in touched] + [set().union(*touched)]
    found: dict[str, set[int]] = {}
    for index in range(len(marks)):
        found.setdefault(joined.part_of.get(str(index), str(index)), set()).add(index)
    assert sorted(map(sorted, found.values())) == sorted(map(sorted, parts))
