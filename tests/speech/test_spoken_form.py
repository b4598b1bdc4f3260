"""How written words are said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.speech.align.letters import phones
from inkplex_data.speech.spoken_form import number_words, spoken

VALUES = {
    word: value
    for value, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    )
}
TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
VALUES |= {word: 10 + index for index, word in enumerate(TEENS)}
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
VALUES |= {word: 20 + 10 * index for index, word in enumerate(TENS)}
SCALES = {"thousand": 1000, "million": 10**6, "billion": 10**9}


def value(words: list[str]) -> int:
    """The number that the words say, read by the other route: from left to right."""
    total = part = 0
    for word in words:
        if word == "hundred":
            part *= 100
        elif word in SCALES:
            total += part * SCALES[word]
            part = 0
        else:
            part += VALUES[word]
    return total + part


@given(st.integers(0, 10**12 - 1))
def test_number_words_say_their_number(number):
    assert value(number_words(number)) == number


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$60,", "sixty dollars"),
        ("$1.05", "one dollar and five cents"),
        ("£13.60", "thirteen pounds and sixty pence"),
        ("2014.", "twenty fourteen"),
        ("3-day", "three day"),
        ("21st", "twenty first"),
        ("30th", "thirtieth"),
        ("007", "zero zero seven"),
        ("don’t", "don't"),
        ("café", "cafe"),
        ("50%", "fifty percent"),
        ("–", ""),
    ],
)
def test_written_words_are_spoken(written, said):
    assert " ".join(spoken(written)) == said


@given(st.text(max_size=20))
def test_any_text_has_a_spoken_form_of_letters(text):
    assert all(unit and set(unit) <= set("abcdefghijklmnopqrstuvwxyz'") for unit in spoken(text))


def test_unknown_words_get_phones():
    assert phones("swiftplex") == ["S", "W", "IH", "F", "T", "P", "L", "EH", "K", "S"]
    assert phones("''") == ["AH"]
