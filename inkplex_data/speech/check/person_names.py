"""Names of a text beside what was heard in their place, and which spellings sound the same. Pure; English.

A recogniser spells names as it likes and mishears many. So a name is only doubted where it was heard as something
that sounds different, and then weighed against that and against common names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

from inkplex_data.speech.spoken_form import spoken

TITLES: Final = frozenset({"mr", "mrs", "ms", "miss", "dr", "sir", "madam"})
COMMON: Final = (
    "anna",
    "brian",
    "carla",
    "daniel",
    "david",
    "elizabeth",
    "emma",
    "george",
    "helen",
    "james",
    "jennifer",
    "julia",
    "kevin",
    "laura",
    "michael",
    "naomi",
    "oliver",
    "peter",
    "rachel",
    "robert",
    "sarah",
    "simon",
    "susan",
    "thomas",
    "william",
)
"""Names of many sounds: of a changed name, one of them resembles what is said more than the text does."""
MAX_RUN_WORDS: Final = 3
MAX_RUNS: Final = 12


def alternatives(name: str, heard: Sequence[str]) -> tuple[str, ...]:
    """What else a name that was not heard as it stands could be: what was `heard` instead, and common names."""
    own = " ".join(spoken(name))
    return tuple(other for other in dict.fromkeys([*heard, *COMMON]) if not sounds_alike(own, other))


def heard_instead(words: Sequence[str], heard: str) -> dict[int, list[str]]:
    """Per word that was not heard as it stands, by index, runs of up to three words that were heard in its place."""
    units = [(unit, index) for index, word in enumerate(words) for unit in spoken(word)]
    said = [unit for word in heard.split() for unit in spoken(word)]
    matcher = difflib.SequenceMatcher(None, [unit for unit, _ in units], said, autojunk=False)
    found: dict[int, list[str]] = {}
    for tag, first, end, low, high in matcher.get_opcodes():
        if tag == "equal":
            continue
        for place in range(first, end):
            # Within a longer stretch that was misheard, the word's own part is about as far in as the word is.
            centre = low + (place - first + 0.5) * (high - low) / (end - first)
            runs = _runs(said, low, high, centre) if high > low else [""]
            found.setdefault(units[place][1], []).extend(runs)
    return found


def _runs(said: Sequence[str], low: int, high: int, centre: float) -> list[str]:
    spans = [
        (start, start + count)
        for count in range(1, MAX_RUN_WORDS + 1)
        for start in range(low, high - count + 1)
    ]
    spans.sort(key=lambda span: abs((span[0] + span[1]) / 2 - centre))
    return [" ".join(said[start:end]) for start, end in spans[:MAX_RUNS]]


def sounds_alike(a: str, b: str) -> bool:
    """Whether two spellings have the same consonants, but for a d, t or s at the end: Brian and Bryan, Anna and "and"."""
    short, long = sorted((_consonants(a), _consonants(b)), key=len)
    return short == long or (bool(short) and long[:-1] == short and long[-1] in "dts")


_SPELLINGS: Final = (
    (r"[^a-z]", ""),
    (r"ph", "f"),
    (r"^kn", "n"),
    (r"^wr", "r"),
    (r"ck|q|x", "k"),
    (r"c(?=[eiy])", "s"),
    (r"c(?!h)", "k"),
    (r"g(?=[ei])", "j"),
    (r"z", "s"),
    (r"gh", ""),
    (r"[aeiouyhw]", ""),
    (r"(.)\1+", r"\1"),
)


def _consonants(text: str) -> str:
    out = text.lower()
    for pattern, new in _SPELLINGS:
        out = re.sub(pattern, new, out)
    return out
