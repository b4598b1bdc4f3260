"""The grammar of an utterance that decides what is asserted: clauses, questions, conditions, denials and corrections.

Pure; English. Each rule errs towards not asserting: what is asked, considered or taken back is no claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_ABBREVIATIONS: Final = frozenset({"dr.", "mr.", "mrs.", "ms.", "a.m.", "p.m.", "st.", "no.", "vs."})
_NEGATIONS: Final = frozenset({"not", "no", "never", "cannot", "without", "neither", "nor", "none", "isnt"})
_NO_DENIAL: Final = frozenset(
    {
        "only",
        "later",
        "more",
        "less",
        "until",
        "before",
        "sooner",
        "earlier",
        "just",
        "problem",
        "worries",
        "doubt",
    }
    | {"other", "further", "better", "fewer", "matter", "sure", "certain", "yet"}
)
_CONDITIONS: Final = frozenset(
    {"if", "whether", "unless", "suppose", "would", "could", "might", "perhaps", "maybe"}
)
_REQUESTS: Final = (
    "let me check",
    "i will check",
    "i'll check",
    "let me see",
    "i am checking",
    "i'm checking",
)
_CORRECTIONS: Final = (
    "sorry",
    "i mean",
    "correction",
    "rather",
    "wait",
    "actually",
    "scratch that",
    "let me correct",
)
_REACH: Final = 10
"""Words between what is taken back and what replaces it."""


def plain(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word.replace("’", "'")).casefold()


@dataclass(frozen=True)
class Utterance:
    """The words of one side, in order."""

    words: tuple[str, ...]

    @cached_property
    def plain(self) -> list[str]:
        return [plain(word) for word in self.words]

    @cached_property
    def sentence(self) -> list[int]:
        """The number of each word's sentence."""
        return self._numbered(self._ends_sentence)

    @cached_property
    def clause(self) -> list[int]:
        """The number of each word's clause."""
        return self._numbered(self._ends_clause)

    def clause_words(self, index: int) -> range:
        """Indices of the words in the clause of a word."""
        own = self.clause[index]
        first = self.clause.index(own)
        return range(first, first + self.clause.count(own))

    def sentence_words(self, index: int) -> range:
        own = self.sentence[index]
        first = self.sentence.index(own)
        return range(first, first + self.sentence.count(own))

    def initial(self, index: int) -> bool:
        """Whether a word begins a sentence."""
        return index == 0 or self.sentence[index - 1] != self.sentence[index]

    def asserted(self, index: int) -> bool:
        """Whether what stands at a word is said to be so: neither asked, nor considered, nor only looked up."""
        sentence = self.sentence_words(index)
        if self.words[sentence[-1]].rstrip("\"')").endswith("?"):
            return False
        before = [self.plain[at] for at in self.clause_words(index) if at < index]
        text = " ".join(before)
        return not _CONDITIONS & set(before) and not any(request in text for request in _REQUESTS)

    def denied_before(self, index: int) -> bool:
        """Whether a denial reaches the word from before it, within its clause."""
        return sum(self._denies(at) for at in self.clause_words(index) if at < index) % 2 == 1

    def denied_after(self, index: int) -> bool:
        """Whether the rest of the clause denies something of the word: `Friday is not possible`."""
        rest = [at for at in self.clause_words(index) if at > index]
        lacking = {"unavailable", "unable", "taken", "full", "gone", "wrong", "impossible", "closed", "out"}
        return any(self._denies(at) for at in rest) or bool(lacking & {self.plain[at] for at in rest})

    def _denies(self, at: int) -> bool:
        word, after = self.plain[at], self.plain[at + 1] if at + 1 < len(self.plain) else ""
        if word not in _NEGATIONS and not word.endswith("n't"):
            return False
        return not (word in ("not", "no") and after in _NO_DENIAL)

    def withdrawn(self, last: int, replacement: int) -> bool:
        """Whether words up to `last` are taken back in favour of those from `replacement` on."""
        between = self.plain[last + 1 : replacement]
        if not 0 < len(between) <= _REACH:
            return False
        text = " ".join(between)
        hits = [mark for mark in _CORRECTIONS if re.search(rf"\b{mark}\b", text)]
        return bool(hits) and (hits != ["actually"] or self.sentence[last] == self.sentence[replacement])

    def _numbered(self, ends: object) -> list[int]:
        assert callable(ends)
        number, numbers = 0, []
        for at in range(len(self.words)):
            numbers.append(number)
            number += bool(ends(at))
        return numbers

    def _ends_sentence(self, at: int) -> bool:
        word = self.words[at].rstrip("\"')”")
        if word.lower() in _ABBREVIATIONS:
            after = self.words[at + 1] if at + 1 < len(self.words) else ""
            return word.lower() in ("a.m.", "p.m.") and after[:1].isupper()
        return word.endswith((".", "?", "!"))

    def _ends_clause(self, at: int) -> bool:
        after = self.plain[at + 1] if at + 1 < len(self.words) else ""
        word = self.words[at].rstrip("\"')”")
        dash = word in ("-", "–", "—") or word.endswith(("—", "–", ";", ":", ","))
        return (
            self._ends_sentence(at)
            or dash
            or after in ("but", "because", "so", "although", "while", "instead")
        )
