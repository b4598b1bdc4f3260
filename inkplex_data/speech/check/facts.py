"""Words of a text that must be said right: numbers, amounts, dates, negations and names, and what else each could be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from inkplex_data.speech.check.person_names import COMMON, TITLES
from inkplex_data.speech.spoken_form import ONES, TENS, spoken

Kind = Literal["number", "amount", "date", "negation", "name"]

DIGITS: Final = tuple(ONES[1:10])
TEENS: Final = tuple(ONES[10:])
TENS_WORDS: Final = tuple(TENS[2:])
ORDINALS: Final = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
SIZES: Final = ("hundred", "thousand", "million")
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
NEAR: Final = ("today", "tonight", "tomorrow", "yesterday")
MONEY: Final = frozenset(["dollar", "dollars", "cent", "cents", "pound", "pounds", "pence", "euro", "euros"])
CLASSES: Final = (DIGITS, TEENS, TENS_WORDS, ORDINALS, SIZES, DAYS, MONTHS, NEAR)
DATES: Final = frozenset((*DAYS, *MONTHS, *NEAR))
AMBIGUOUS: Final = frozenset({"may", "march", "second", "one"})
"""Words that are more often something else; `may` and `march` count with a capital letter only."""
NEGATIONS: Final = frozenset(
    ["no", "not", "never", "none", "nothing", "nobody", "cannot", "without", "neither"]
)
AUXILIARIES: Final = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "have",
        "has",
        "had",
        "am",
        "must",
    ]
)
SENTENCE_ENDS: Final = (".", "?", "!", ":")


@dataclass(frozen=True)
class Fact:
    """Word `index` of a text, and the `alternatives` to it: what stands there instead, empty where it is left out.

    A name within a sentence has none of its own: `names.alternatives` finds them in what was heard. At the beginning
    of one a recogniser expects other words than names, so that only common names are told apart there.
    """

    index: int
    kind: Kind
    alternatives: tuple[str, ...]


def facts_of(words: Sequence[str]) -> list[Fact]:
    """The facts of a text's words, in order.

    That a word is not denied is a fact, too, since the audio may hold a negation that the text has lost.
    """
    found: list[Fact] = []
    for index, word in enumerate(words):
        units = spoken(word)
        before = words[index - 1] if index else ""
        initial = not before or before.endswith(SENTENCE_ENDS)
        following = spoken(words[index + 1]) if index + 1 < len(words) else []
        fact = _fact(index, word, units, initial=initial, following=following)
        if fact is not None:
            found.append(fact)
        denied = _negated(before) or _negated(word)
        if units and not initial and not denied:
            plain = " ".join(units)
            found.append(Fact(index, "negation", (f"not {plain}", f"no {plain}")))
    return found


def _fact(index: int, word: str, units: list[str], *, initial: bool, following: list[str]) -> Fact | None:
    capital = word.lstrip("'\"(")[:1].isupper()
    numbers = _numbers(units, capital=capital, initial=initial)
    if numbers:
        money = MONEY & {*units, *following[:1]}
        kind: Kind = "amount" if money else "date" if DATES & set(units) else "number"
        return Fact(index, kind, numbers)
    last = units[-1] if units else ""
    if set(units) & NEGATIONS:
        return Fact(index, "negation", ("can" if last == "cannot" else "",))
    if last.endswith("n't"):
        return Fact(index, "negation", ({"can't": "can", "won't": "will"}.get(last, last[:-3]),))
    if last in AUXILIARIES and not (set(following[:1]) & NEGATIONS):
        return Fact(index, "negation", ({"can": "can't", "will": "won't"}.get(last, f"{last}n't"),))
    is_name = capital and last and last not in TITLES and last != "i" and not last.startswith("i'")
    is_name = is_name and (not initial or last in COMMON)
    return Fact(index, "name", COMMON if initial else ()) if is_name else None


def _negated(word: str) -> bool:
    units = spoken(word)
    return bool(NEGATIONS & set(units)) or any(unit.endswith("n't") for unit in units)


def _numbers(units: list[str], *, capital: bool, initial: bool) -> tuple[str, ...]:
    """The word with one of its number or date words changed for each other one of its class."""
    out: list[str] = []
    for place, unit in enumerate(units):
        if unit in AMBIGUOUS and not (capital and not initial):
            continue
        for members in CLASSES:
            if unit in members:
                others = [other for other in members if other != unit]
                out += [" ".join([*units[:place], other, *units[place + 1 :]]) for other in others]
        counterpart = _counterpart(unit)
        if counterpart is not None:
            out.append(" ".join([*units[:place], counterpart, *units[place + 1 :]]))
    return tuple(out)


def _counterpart(unit: str) -> str | None:
    """The tens that a teen is misheard for, and the other way round: fifteen, fifty."""
    if unit in TEENS[3:]:
        return TENS_WORDS[TEENS.index(unit) - 2]
    if unit in TENS_WORDS[1:]:
        return TEENS[TENS_WORDS.index(unit) + 2]
    return None
