"""What agents say and callers do not, and the other way round, in English service calls. Pure.

Each phrase has a likelihood ratio: how many times likelier it comes from an agent than from a caller. They are
judgements, not counts of a corpus; what callers say has ratios below 1. In other languages nothing matches, and
nothing is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from typing import Final

_NAMED: Final = "(?:name|first name|last name|full name|date of birth|account|address|email|order|phone|number|zip|postcode|postal|policy)"
_OWNED: Final = (
    "(?:account|bill|card|credit card|debit card|order|package|parcel|delivery|internet|broadband|router|phone|"
    "line|car|flight|booking|reservation|subscription|password|payment|policy|statement|insurance|money|device)"
)


@dataclass(frozen=True)
class Phrase:
    """One kind of phrase. `pattern` goes over lower-case words with one space between, apostrophes left out."""

    name: str
    pattern: re.Pattern[str]
    ratio: float

    @property
    def log_odds(self) -> float:
        return log(self.ratio)


def _phrase(name: str, pattern: str, ratio: float) -> Phrase:
    return Phrase(name, re.compile(rf"\b(?:{pattern})\b"), ratio)


PHRASES: Final = (
    _phrase("thank you for calling", r"(?:thank you|thanks) for calling(?! back| me)", 20),
    _phrase("how can I help", r"(?:how|what) (?:can|may|could) (?:i|we) (?:help|assist|do for)", 20),
    _phrase("anything else I can do", r"anything else (?:that )?(?:i|we) (?:can|could|may)", 20),
    _phrase(
        "thank you for holding", r"(?:thank you|thanks) for (?:contacting|holding|waiting|your patience)", 8
    ),
    _phrase(
        "can I have your name", rf"(?:can|may|could) i (?:please )?(?:have|get|take) (?:your|the) {_NAMED}", 8
    ),
    _phrase("what is your name", rf"what(?:s| is| was) your {_NAMED}", 5),
    _phrase("to verify", r"(?:verify|confirm) your|(?:security|verification) (?:purposes|questions?)", 6),
    _phrase(
        "look up your account",
        r"(?:pull|bring|look) (?:you|up your|that|it) up|(?:pull|bring|look) up your",
        5,
    ),
    _phrase("please hold", r"(?:put|place) you on (?:a )?(?:brief )?hold|transfer you|please hold", 6),
    _phrase("in our system", r"(?:in|on) (?:our|the) system|on my end", 3),
    _phrase("let me check", r"(?:let me|ill|i will) (?:check|look|pull|see|test|track|get that)", 3),
    _phrase("name speaking", r"^(?:\w+ ){1,8}speaking", 4),
    _phrase(
        "I am calling about",
        r"(?:im|i am|i was) calling (?:about|because|to|regarding|in regards?|for)",
        1 / 8,
    ),
    _phrase("I would like to", r"(?:id|i would) like (?:to|a|an|some)|i was (?:wondering|hoping)", 1 / 4),
    _phrase("I need", r"i (?:need|want) (?:to|a|an|my|some|help)|i have a (?:question|problem)", 1 / 4),
    _phrase("my account", rf"my (?:\w+ )?{_OWNED}", 1 / 5),
    _phrase(
        "can you tell me", r"(?:can|could) you (?:please )?(?:help|tell|send|give|check) (?:me|my)", 1 / 3
    ),
    _phrase("I lost it", r"i (?:lost|cant|cannot|forgot|never got|ordered|bought|received)", 1 / 3),
    _phrase(
        "does not work",
        r"(?:not|isnt|stopped|doesnt|wont) (?:work|working|start)|been down|(?:not|never|hasnt) arrived",
        1 / 3,
    ),
)


def plain(text: str) -> str:
    """Lower-case words with one space between; apostrophes join what they stand in."""
    return " ".join(re.findall(r"\w+", re.sub(r"['’]", "", text.lower())))


def heard(text: str) -> list[Phrase]:
    """The kinds of phrases in one side's words, each once."""
    words = plain(text)
    return [phrase for phrase in PHRASES if phrase.pattern.search(words)]
