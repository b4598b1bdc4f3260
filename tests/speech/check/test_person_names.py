"""Which spellings sound the same, and what a name could be instead."""

from __future__ import annotations

import pytest

from inkplex_data.speech.check.facts import facts_of
from inkplex_data.speech.check.person_names import COMMON, alternatives, heard_instead, sounds_alike


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Brian", "Bryan"),
        ("Anna", "Hannah"),
        ("Carla", "Karla"),
        ("Northwind", "north wind"),
        ("Julia", "Julie"),
        ("Philip", "Filip"),
        ("Catherine", "Kathryn"),
        ("Johnson", "Johnson's"),
        ("Anna", "and"),
    ],
)
def test_spellings_of_one_sound(a: str, b: str):
    assert sounds_alike(a, b)
    assert sounds_alike(b, a)


@pytest.mark.parametrize(
    ("a", "b"), [("Brian", "Anna"), ("David", "Daniel"), ("Carla", "Kevin"), ("Leeds", "")]
)
def test_names_of_different_sound(a: str, b: str):
    assert not sounds_alike(a, b)


def test_common_names_differ_from_each_other():
    assert not [(a, b) for a in COMMON for b in COMMON if a < b and sounds_alike(a, b)]


def test_what_was_heard_in_a_words_place():
    words = ["Hello,", "this", "is", "Brian.", "I", "owe", "£20."]
    assert heard_instead(words, "hello this is Brian I owe 20 pounds") == {}
    assert heard_instead(words, "Hello, this is Peter. I owe 20 pounds.") == {3: ["peter"]}
    assert heard_instead(words, "Hello, this is. I owe 20 pounds.") == {3: [""]}
    assert heard_instead(words, "") == {index: [""] * (2 if index == 6 else 1) for index in range(7)}
    runs = heard_instead(words, "Hello, this is a big one. I owe 20 pounds.")[3]
    assert set(runs) == {"a", "big", "one", "a big", "big one", "a big one"}


def test_alternatives_to_a_name_are_what_was_heard_and_common_names():
    found = alternatives("Brian,", ["daisy", "peter"])
    assert found[:2] == ("daisy", "peter")
    assert set(found) == {"daisy", *COMMON} - {"brian"}
    assert alternatives("Northwind", ["north wind", "wind"]) == ("wind", *COMMON)


def test_titles_and_words_that_begin_a_sentence_are_no_names():
    words = ["Where", "is", "Mrs", "Patel?", "Anna", "knows.", "Tell", "me,", "I'm", "here."]
    found = {words[fact.index]: fact.alternatives for fact in facts_of(words) if fact.kind == "name"}
    assert found == {"Patel?": (), "Anna": COMMON}
