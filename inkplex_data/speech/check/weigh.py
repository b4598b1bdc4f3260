"""Facts of a text weighed against what else each could be, on the same sound.

A small recogniser mishears much that was said well. So a fact counts as lost only where Whisper finds the same
text with another fact in its place clearly more likely, both spelled out by us and scored on the same sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from inkplex_data.speech.check.facts import Fact, Kind, facts_of
from inkplex_data.speech.check.person_names import alternatives, heard_instead
from inkplex_data.speech.spoken_form import spoken

if TYPE_CHECKING:
    from inkplex_data.speech.check.scorer import WhisperScorer

MARGIN_NATS: Final = 2.0
"""By how much another fact must be more likely. For tiny.en on synthesised calls the best alternative to a true one was
at most 1.3 nats ahead (a "forty" that sounds like "fourteen"), the best to a wrong one at least 3.2."""
NAME_MARGIN_NATS: Final = 3.0
"""The same for names, which are misheard most: the best alternative to a true one was at most 2.0 nats ahead, the best
to a wrong one 15 in the median."""
NEIGHBOURS: Final = 3


@dataclass(frozen=True)
class Weighed:
    """The fact in word `word`, the best of its alternatives, `""` for leaving it out, and that one's lead in nats."""

    word: int
    kind: Kind
    said: str
    gain: float


def weigh(words: Sequence[str], heard: str, features: Any, scorer: WhisperScorer) -> list[Weighed]:
    """Every fact of the words, in order. A text too long for its sound is not weighed: its word errors tell of it."""
    plain = [_plain(word) for word in words]
    if not words or not scorer.fits(" ".join(plain)):
        return []
    facts = facts_of(words)
    runs = heard_instead(words, heard)
    choices = [_choices(fact, words, runs) for fact in facts]
    texts = [
        _with(plain, fact.index, other)
        for fact, others in zip(facts, choices, strict=True)
        for other in others
    ]
    scores = scorer.scores(features, [" ".join(plain), *texts])
    gains = scores[1:] - scores[0]
    found: list[Weighed] = []
    place = 0
    for fact, others in zip(facts, choices, strict=True):
        if others:
            best = int(gains[place : place + len(others)].argmax())
            found.append(Weighed(fact.index, fact.kind, others[best], float(gains[place + best])))
            place += len(others)
    return found


def _choices(fact: Fact, words: Sequence[str], heard: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    if fact.kind != "name":
        return fact.alternatives
    if fact.index not in heard:
        return ()
    return alternatives(words[fact.index], fact.alternatives or heard[fact.index])


def lost(weighed: Sequence[Weighed], *, margin_nats: float = MARGIN_NATS) -> list[Weighed]:
    """Those facts that something else outweighs. Pure."""
    ahead = [
        fact
        for fact in weighed
        if fact.gain > (max(margin_nats, NAME_MARGIN_NATS) if fact.kind == "name" else margin_nats)
    ]
    return [fact for fact in ahead if not any(_explains(other, fact) for other in ahead)]


def _explains(other: Weighed, fact: Weighed) -> bool:
    """One negation raises the likelihood of several places; only the best of neighbours is told."""
    near = abs(other.word - fact.word) <= NEIGHBOURS and "negation" in (other.kind, fact.kind)
    return near and other.gain > fact.gain


def _plain(text: str) -> str:
    """Numbers in words, everything else as written, so that alternatives differ in the fact alone."""
    if not any(character.isdigit() for character in text):
        return text
    return " ".join(spoken(text)) + (text[-1] if text[-1] in ".,?!" else "")


def _with(texts: Sequence[str], index: int, other: str) -> str:
    """The text with another word at `index`, in the capitals and with the punctuation of what stood there."""
    old = texts[index]
    end = old[-1] if old[-1:] in set(".,?!;:") else ""
    new = (
        other[:1].upper() + other[1:]
        if old[:1].isupper() and not other.startswith(("no ", "not "))
        else other
    )
    parts = [*texts[:index], *([new + end] if new else []), *texts[index + 1 :]]
    if not new and old[:1].isupper() and index < len(parts):
        parts[index] = parts[index][:1].upper() + parts[index][1:]
    return " ".join(parts)
