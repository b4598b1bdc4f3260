"""Where the words of a known text are looked for: beside what was heard of it, and not where it has no room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.transcripts import read_transcript
from inkplex_data.errors import CallRefused
from inkplex_data.speech.align.anchored import LEAST_AGREEING, places_of, runs
from inkplex_data.speech.align.transcribe import Heard
from inkplex_data.speech.spoken_form import spoken


def heard(text: str, step_us: int = 300_000) -> list[Heard]:
    """Words that follow each other without a pause."""
    return [
        Heard(word, n * step_us, (n + 1) * step_us, 0.9) if word != "_" else Heard("", 0, 0, None)
        for n, word in enumerate(text.split())
        if word != "_"
    ]


def placed(known: str, said: str, total_us: int | None = None) -> list[tuple[int, int, bool] | None]:
    """(start, end, anchor) of each word, ms."""
    words = ["".join(spoken(word)) for word in known.split()]
    total_us = 300_000 * len(said.split()) if total_us is None else total_us
    return [
        None if place is None else (place.start_us // 1000, place.end_us // 1000, place.anchor)
        for place in places_of(words, heard(said), total_us)
    ]


def test_words_that_agree_are_anchors_and_others_share_what_lies_between():
    found = placed("your bill of $60 is due", "your bill of sixty is dew")
    # "$60" is one word of "sixty dollars": it gets the stretch of what was heard in its place.
    assert found[:3] == [(0, 300, True), (300, 600, True), (600, 900, True)]
    assert found[3:] == [(900, 1200, False), (1200, 1500, True), (1500, 1800, False)]


def test_a_word_that_stands_alone_is_an_anchor_only_if_it_is_long():
    found = placed("one two guaranteed", "uh the uh guaranteed uh")
    assert (
        found[2] == (900, 1200, True)
        and [place is not None and place[2] for place in found[:2]] == [False] * 2
    )
    assert placed("yes", "yes") == [(0, 300, True)]
    with pytest.raises(CallRefused, match="of 2 words of the text 0") as refused:
        placed("the cat", "uh the uh uh")
    assert refused.value.code == "words-text-differs"


def test_what_nobody_says_has_no_place():
    said = "good morning sir how are you"
    unsaid = "and all of this was never said by anyone in here"
    found = placed(f"good morning sir {unsaid} how are you", said)
    assert [place is None for place in found] == [False] * 3 + [True] * len(unsaid.split()) + [False] * 3
    # Room for words that were not heard, but not for so many.
    assert placed("good morning sir my dear how are you", "good morning sir _ _ how are you").count(None) == 0
    quiet = "good morning sir" + " _" * 30 + " how are you"
    assert placed(f"good morning sir {unsaid} how are you", quiet).count(None) == len(unsaid.split())


def test_bare_punctuation_goes_with_its_neighbours():
    found = placed("yes — of course we will", "yes of course we will")
    assert found[1] == (300, 300, False) and None not in found


@given(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "-", "of"]), min_size=1, max_size=30),
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "of"]), min_size=1, max_size=30),
)
def test_places_are_in_order_and_inside(known, said):
    words = ["".join(spoken(word)) for word in known]
    total_us = 300_000 * len(said)
    try:
        found = [place for place in places_of(words, heard(" ".join(said)), total_us) if place is not None]
    except CallRefused as refused:
        assert refused.code == "words-text-differs"
        return
    edges = [edge for place in found for edge in (place.start_us, place.end_us)]
    assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= total_us


def test_another_calls_text_agrees_far_less_than_is_asked(real_data: Path):
    """Two calls of call centres, both with their usual phrases."""
    service = json.loads((real_data / "calls" / "Auto_Repairs_40_UTC_agent.json").read_text())["alignments"]
    other = read_transcript(real_data / "words" / "example-call.json").words
    known = ["".join(spoken(word)) for word, _, _ in service]
    with pytest.raises(CallRefused) as refused:
        places_of(known, heard(" ".join(word.text for word in other)), 10**9)
    agreeing = int(str(refused.value.what).split(" are heard")[0].rsplit(" ", 1)[1])
    assert agreeing < LEAST_AGREEING / 2 * len(known), refused.value.what


def test_runs():
    assert runs([1, 2, 3, 7, 9, 10]) == [range(1, 4), range(7, 8), range(9, 11)] and runs([]) == []
