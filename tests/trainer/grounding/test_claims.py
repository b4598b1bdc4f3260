"""The claim checker on hand-made utterances, and to the frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from inkplex_data.clock import FRAME_US
from inkplex_data.trainer.grounding.claims.carried import Item, carried_values
from inkplex_data.trainer.grounding.claims.claim_verdicts import judge
from inkplex_data.trainer.grounding.claims.readings import KINDS

WORD_US = 200_000
FLOOR = {"precision": 1.0, "recall": 1.0}
"""Of every kind, on the hand-made utterances; what is reached is printed by `python -m tests.trainer.grounding.test_claims`."""

Case = tuple[str, list[Item], list[tuple[int, str]], list[tuple[str, str]]]


def utterances() -> Iterator[Case]:
    """Text, evidence, words with their starts in µs, and the expected (kind, verdict) of each claim."""
    items: list[Item] = []
    begun = True
    for line in Path(__file__).with_name("utterances.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("@"):
            if not begun:
                items = []
            begun = True
            head, text = line[1:].split("|", 1)
            name, arrival, *ends, status = head.split()
            items.append(
                Item(
                    name,
                    text.strip(),
                    int(float(arrival) * 1e6),
                    int(float(ends[0]) * 1e6) if ends else None,
                    "succeeded" if status == "given" else status,  # type: ignore[arg-type]
                    given=status == "given",
                )
            )
        elif line and not line.startswith("#"):
            begun = False
            at, rest = line.split(" ", 1)
            text, expected = rest.split(" => ")
            words = [(round(float(at) * 1e6) + WORD_US * i, word) for i, word in enumerate(text.split())]
            wanted = [] if expected == "-" else [tuple(one.split()) for one in expected.split(", ")]
            yield text, items, words, wanted  # type: ignore[misc]


def found(items: list[Item], words: list[tuple[int, str]]) -> list[tuple[str, str]]:
    return [(claim.kind, claim.verdict) for claim in judge(words, items) if not claim.withdrawn]


def counts() -> tuple[Counter[str], Counter[str], Counter[str], list[str]]:
    """Claims right, found and wanted by kind, and the utterances that were judged otherwise."""
    right: Counter[str] = Counter()
    said: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    missed = []
    for text, items, words, expected in utterances():
        got = found(items, words)
        both = Counter(got) & Counter(expected)
        right.update(kind for kind, _ in both.elements())
        said.update(kind for kind, _ in got)
        wanted.update(kind for kind, _ in expected)
        if got != expected:
            missed.append(f"{words[0][0] / 1e6} {text}: {got}, not {expected}")
    return right, said, wanted, missed


def test_there_are_two_hundred_and_every_kind_is_among_them() -> None:
    cases = list(utterances())
    assert len(cases) >= 200
    assert {kind for _, _, _, expected in cases for kind, _ in expected} == set(KINDS.values())


def test_precision_and_recall_of_every_kind() -> None:
    right, said, wanted, missed = counts()
    for kind in KINDS.values():
        assert right[kind] >= FLOOR["precision"] * said[kind], (kind, missed)
        assert right[kind] >= FLOOR["recall"] * wanted[kind], (kind, missed)


def test_none_that_is_true_is_called_contradicted() -> None:
    """Nor false in any other way: wherever all that is expected is supported, all that is found is."""
    for text, items, words, expected in utterances():
        if all(verdict == "supported" for _, verdict in expected):
            assert {verdict for _, verdict in found(items, words)} <= {"supported", "unsupported"}, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"price": 84.5}', "It is eighty-four dollars and fifty cents."),
        ('{"day": "2026-03-13"}', "On Friday."),
        ('{"at": "15:30"}', "It is at half past three."),
        ('{"gate": 12}', "Gate twelve."),
        ('{"city": "Lisbon"}', "It goes to Lisbon."),
        ('{"refundable": true}', "It is refundable."),
    ],
)
@pytest.mark.parametrize("arrival_us", [1_000_000, 1_040_000, 999_999])
def test_a_claim_moved_before_its_evidence_is_premature_to_the_frame(
    text: str, said: str, arrival_us: int
) -> None:
    item = Item("result", text, arrival_us)
    due = -(-arrival_us // FRAME_US)
    for frame in range(due - 3, due + 3):
        spoken = said.split()
        # All words of the claim from this frame on; what comes before it decides nothing.
        (claim,) = judge([(frame * FRAME_US, word) for word in spoken], [item])
        assert claim.verdict == ("premature" if frame < due else "supported")
        assert (claim.event, claim.start_us) == ("result", frame * FRAME_US)


def test_evidence_stands_until_the_frame_that_sees_what_replaced_it() -> None:
    items = [Item("a", '{"day": "Monday"}', 0, 800_000), Item("b", '{"day": "Tuesday"}', 800_000)]
    assert [judge([(at, "Monday.")], items)[0].verdict for at in (720_000, 800_000)] == ["supported", "stale"]
    assert [judge([(at, "Tuesday.")], items)[0].event for at in (720_000, 800_000)] == ["b", "b"]


def test_hostile_results_are_read_within_bounds() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    for text in (
        deep,
        '{"a":' * 3_000,
        "{" * 50_000,
        '{"n": 1e999}',
        '{"d": "2026-02-31"}',
        "\x00" * 10,
        "9" * 4_000,
    ):
        carried_values(Item("x", text, 0))
    assert len(carried_values(Item("x", str(list(range(9_000))), 0))) == 1_000


if __name__ == "__main__":
    right, said, wanted, missed = counts()
    for kind in KINDS.values():
        print(f"{kind:8} {right[kind]:3} right of {said[kind]:3} found and {wanted[kind]:3} wanted")
    print(len(list(utterances())), "utterances;", *missed, sep="\n")
