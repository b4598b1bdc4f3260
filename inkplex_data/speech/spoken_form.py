"""How a written word is said: lower-case words without digits or signs. Pure; English.

Good enough to align a transcript with its audio and to compare two transcripts; no speech synthesiser's text
front end.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ONES: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
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
TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES: Final = ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
CURRENCIES: Final = {
    "$": ("dollar", "dollars", "cents"),
    "£": ("pound", "pounds", "pence"),
    "€": ("euro", "euros", "cents"),
}
SIGNS: Final = {"%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals"}
_PARTS = re.compile(r"[$£€]?\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?|[a-z]+(?:'[a-z]+)*|[%&+@=]", re.IGNORECASE)
MAX_DIGITS: Final = 12


def spoken(text: str) -> list[str]:
    """The words that one says for `text`, such as `["sixty", "dollars"]` for `$60,`; empty for bare punctuation."""
    plain = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'"))
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    out: list[str] = []
    for match in _PARTS.finditer(plain):
        part = match.group().lower()
        if part[0].isdigit() or part[0] in CURRENCIES:
            out += _number_part(part)
        elif part in SIGNS:
            out.append(SIGNS[part])
        else:
            out.append(part)
    return out


def number_words(value: int) -> list[str]:
    """A whole number from 0 to below 10^12, in words."""
    if value < 20:
        return [ONES[value]]
    if value < 100:
        return [TENS[value // 10], *([ONES[value % 10]] if value % 10 else [])]
    for size, name in SCALES:
        if value >= size:
            rest = value % size
            return [*number_words(value // size), name, *(number_words(rest) if rest else [])]
    raise AssertionError


def _number_part(part: str) -> list[str]:
    sign = part[0] if part[0] in CURRENCIES else ""
    digits = part.lstrip("$£€").replace(",", "")
    ordinal = digits[-2:].isalpha()
    digits = digits[:-2] if ordinal else digits
    whole, _, fraction = digits.partition(".")
    if len(whole) > MAX_DIGITS or (len(whole) > 1 and whole[0] == "0"):
        words = [ONES[int(digit)] for digit in whole]
    elif len(whole) == 4 and not sign and not fraction and 1100 <= int(whole) < 2100 and int(whole) % 100 > 9:
        words = number_words(int(whole) // 100) + number_words(int(whole) % 100)
    else:
        words = number_words(int(whole))
    if ordinal:
        last = words[-1]
        words[-1] = ORDINALS.get(last, last[:-1] + "ieth" if last.endswith("y") else last + "th")
    if sign:
        one, many, small = CURRENCIES[sign]
        words.append(one if words == ["one"] else many)
        if fraction and int(fraction):
            words += ["and", *number_words(int((fraction + "0")[:2])), small]
    elif fraction:
        words += ["point", *(ONES[int(digit)] for digit in fraction)]
    return words
