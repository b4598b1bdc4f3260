"""What evidence carries: the values of a result, each with the words that name it. Pure.

A result is read as JSON where it holds any, so that `{"price": 84.5, "refundable": false}` carries an amount named
`price` and a flag; other text carries the values that stand in it, and its names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from inkplex_data.speech.check.person_names import TITLES
from inkplex_data.trainer.grounding.claims.readings import Amount, Flag, Name, Number, Reading
from inkplex_data.trainer.grounding.claims.values import find_values

Status = Literal["pending", "succeeded", "failed"]

MAX_TEXT: Final = 100_000
"""Characters of one result that are read."""
MAX_VALUES: Final = 1_000
MAX_DEPTH: Final = 20
NAME_WORDS: Final = 6
MONEY_KEYS: Final = frozenset(
    [
        "price",
        "cost",
        "amount",
        "total",
        "fee",
        "balance",
        "due",
        "charge",
        "refund",
        "deposit",
        "credit",
        "fare",
        "payment",
    ]
)
_SILENT_KEYS: Final = frozenset({"status", "type", "id"})
_SILENT_NAMES: Final = frozenset({"ok", "success", "error", "none", "true", "false", "unknown", "pending"})
_KEY = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@dataclass(frozen=True)
class Item:
    """One piece of evidence. Times in µs on the call's clock; it stands in [arrival, ends), to the end where None.

    `given` is what the caller or the role prompt says: it supports what repeats it, and contradicts nothing.
    """

    id: str
    text: str
    arrival_us: int
    ends_us: int | None = None
    status: Status = "succeeded"
    given: bool = False

    def stands(self, at_us: int) -> bool:
        return self.arrival_us <= at_us and (self.ends_us is None or at_us < self.ends_us)


@dataclass(frozen=True)
class Carried:
    """One value of an item. about: lower-case words that name it, none in plain text."""

    item: Item
    about: tuple[str, ...]
    readings: tuple[Reading, ...]


def carried_values(item: Item) -> list[Carried]:
    """The values of an item, in order; a pending request carries none.

    >>> [(one.about, one.readings[0]) for one in carried_values(Item("r", '{"rooms": 3, "pets_ok": false}', 0))]
    [(('room',), Number(digits='3')), (('pet', 'ok'), Flag(about=('pet', 'ok'), holds=False))]
    """
    if item.status == "pending":
        return []
    text = item.text[:MAX_TEXT]
    found = _json(text)
    leaves = _plain(text) if found is None else _leaves(found, (), 0)
    return [
        Carried(item, about, readings)
        for (about, readings), _ in zip(leaves, range(MAX_VALUES), strict=False)
    ]


def key_words(key: str) -> tuple[str, ...]:
    """The words of a key, in the singular: `checkInDates` gives check, in, date."""
    words = [singular(word.lower()) for word in _KEY.findall(key)]
    return tuple(word for word in words if word not in ("is", "has", "are")) or tuple(words)


def singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def name_words(text: str) -> tuple[str, ...]:
    """The words of a name, lower-case and without titles."""
    words = [re.sub(r"^\W+|\W+$", "", word).casefold() for word in text.split()]
    return tuple(word.removesuffix("'s") for word in words if word and word not in TITLES | {"doctor"})


_Leaf = tuple[tuple[str, ...], tuple[Reading, ...]]


def _json(text: str) -> Any:
    """The first JSON object or list in a text; None where there is none."""
    decoder = json.JSONDecoder()
    for begin in (at for at, character in enumerate(text) if character in "{["):
        try:
            return decoder.raw_decode(text, begin)[0]
        except (ValueError, RecursionError):
            if begin > 2_000:
                return None
    return None


def _leaves(value: Any, about: tuple[str, ...], depth: int) -> Iterator[_Leaf]:
    if depth > MAX_DEPTH:
        return
    match value:
        case dict():
            for key, inner in value.items():
                yield from _leaves(inner, key_words(str(key)), depth + 1)
        case list():
            if about:
                yield about, (Flag(about, bool(value)),)
            for inner in value:
                yield from _leaves(inner, about, depth + 1)
        case bool():
            yield about, (Flag(about, value),)
        case int() | float():
            digits = str(abs(value)) if isinstance(value, int) else f"{abs(value):f}".rstrip("0").rstrip(".")
            money = MONEY_KEYS & set(about) and len(digits.partition(".")[2]) <= 2
            amount = (Amount(round(abs(value) * 100)),) if money else ()
            yield about, (*amount, Number(digits))
        case str():
            if not _SILENT_KEYS & set(about):
                yield from _text(value, about)


def _text(text: str, about: tuple[str, ...]) -> Iterator[_Leaf]:
    words = text.split()
    values = find_values(words)
    yield from ((about, value.readings) for value in values)
    name = name_words(text)
    if not values and 0 < len(name) <= NAME_WORDS and not _SILENT_NAMES & set(name):
        yield about, names_of(name, text)


def names_of(name: tuple[str, ...], text: str) -> tuple[Reading, ...]:
    """A name, and its single words where all of it is written with capitals: a person may be called by one."""
    proper = all(word[:1].isupper() for word in text.split())
    single = [Name((word,)) for word in name if len(word) > 2] if proper and 1 < len(name) < 4 else []
    return (Name(name), *single)


def _plain(text: str) -> Iterator[_Leaf]:
    words = text.split()
    values = find_values(words)
    taken = {index for value in values for index in range(value.first, value.last + 1)}
    yield from ((_before(words, value.first), value.readings) for value in values)
    if not values and 0 < len(words) <= 3:
        yield from _text(text, ())
        return
    for index, word in enumerate(words):
        initial = index == 0 or words[index - 1][-1:] in ".?!:"
        plain = name_words(word)
        if (
            index not in taken
            and not initial
            and word.lstrip("\"'(")[:1].isupper()
            and plain
            and plain != ("i",)
        ):
            yield (), (Name(plain),)


def _before(words: list[str], first: int) -> tuple[str, ...]:
    """The word that a number in plain text follows, such as the gate of `gate 12`."""
    plain = re.sub(r"\W+", "", words[first - 1]).lower() if first else ""
    return (singular(plain),) if plain else ()
