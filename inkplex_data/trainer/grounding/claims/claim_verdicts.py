"""What an agent claims, and whether it could know it when it said it. Pure.

A claim is a value that is asserted. Held against the evidence at the moment when its first word begins it is
- supported: evidence that stands then carries the value;
- stale: only evidence that has been superseded carries it;
- premature: evidence carries it that arrives later;
- contradicted: none carries it, and evidence that stands carries another value in its place;
- unsupported: nothing says anything about it.
The rules are those of seeds/000, "The decisive counterfactual mid-call tool test", and of `corpus.sidecars.claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inkplex_data.corpus.sidecars.claims import Said
from inkplex_data.speech.check.person_names import TITLES
from inkplex_data.trainer.grounding.claims.carried import Carried, Item, carried_values, name_words, singular
from inkplex_data.trainer.grounding.claims.outcomes import said_outcomes
from inkplex_data.trainer.grounding.claims.readings import (
    Flag,
    Kind,
    Name,
    Number,
    Outcome,
    Reading,
    agree,
    kind_of,
)
from inkplex_data.trainer.grounding.claims.utterance import Utterance
from inkplex_data.trainer.grounding.claims.values import Found, find_values

Verdict = Literal["supported", "stale", "premature", "contradicted", "unsupported"]
VERDICTS: tuple[Verdict, ...] = ("supported", "stale", "premature", "contradicted", "unsupported")


@dataclass(frozen=True)
class Claim:
    """Words [first, last] and what they claim. event: the item that decides, None where no item does.

    denied: the value is said not to be so. withdrawn: the speaker takes it back at once; it counts as no claim.
    """

    text: str
    first: int
    last: int
    start_us: int
    kind: Kind
    verdict: Verdict
    event: str | None
    denied: bool = False
    withdrawn: bool = False
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class _Assertion:
    found: Found
    denied: Literal["no", "before", "after"]


def judge(said: Sequence[Said], items: Sequence[Item]) -> list[Claim]:
    """The claims of an utterance, in order, each with its verdict. `said`: words with their starts in µs.

    >>> item = Item("lookup", '{"day": "Friday"}', 400_000)
    >>> [claim.verdict for at in (320_000, 400_000) for claim in judge([(at, "Friday.")], [item])]
    ['premature', 'supported']
    """
    utterance = Utterance(tuple(text for _, text in said))
    values = [value for item in items for value in carried_values(item)]
    claims = []
    for assertion in _assertions(utterance, values):
        found = assertion.found
        outcome = found.readings[0]
        start_us = said[found.first][0]
        if isinstance(outcome, Outcome):
            verdict, event, decides = *_outcome_verdict(outcome, items, values, start_us), None
        else:
            verdict, decides = _verdict(assertion, utterance, values, start_us)
            event = None if decides is None else decides.item.id
        claims.append(
            Claim(
                text=" ".join(utterance.words[found.first : found.last + 1]),
                first=found.first,
                last=found.last,
                start_us=start_us,
                kind=_kind(found.readings, decides),
                verdict=verdict,
                event=event,
                denied=assertion.denied == "before",
                readings=found.readings,
            )
        )
    return _without_withdrawn(utterance, claims)


def _kind(said: tuple[Reading, ...], decides: Carried | None) -> Kind:
    """The kind of the reading that the deciding value is of; else the likeliest."""
    for reading in said if decides is not None else ():
        if agree((reading,), decides.readings):  # type: ignore[union-attr]
            return kind_of(reading)
    return kind_of(said[0])


def _assertions(utterance: Utterance, values: Sequence[Carried]) -> Iterator[_Assertion]:
    found = find_values(utterance.words)
    taken = {index for one in found for index in range(one.first, one.last + 1)}
    names = _names(utterance, values, taken)
    flags = list(_flags(utterance, values))
    found = [one for one in found if not any(_names_flag(one, flag, utterance) for flag in flags)]
    everything = [*found, *names, *flags, *said_outcomes(utterance)]
    for one in sorted(everything, key=lambda one: (one.first, one.last)):
        if not utterance.asserted(one.first):
            continue
        own = isinstance(one.readings[0], Flag | Outcome)  # they hold their denial themselves
        before = not own and utterance.denied_before(one.first)
        after = not own and utterance.denied_after(one.last)
        yield _Assertion(one, "before" if before else "after" if after else "no")


def _names_flag(found: Found, flag: Found, utterance: Utterance) -> bool:
    """Whether a value is only part of what a flag of its clause is called, such as the day of `open_sunday`."""
    reading = flag.readings[0]
    words = {singular(utterance.plain[at]) for at in range(found.first, found.last + 1)}
    near = utterance.clause[found.first] == utterance.clause[flag.first]
    return near and isinstance(reading, Flag) and words <= set(reading.about)


def _names(utterance: Utterance, values: Sequence[Carried], taken: set[int]) -> Iterator[Found]:
    """Names that evidence carries, and capitalised words that nothing carries where evidence has names."""
    carried = {reading.words for value in values for reading in value.readings if isinstance(reading, Name)}
    plain = [word.removesuffix("'s") for word in utterance.plain]
    used = set(taken)
    for words in sorted(carried, key=len, reverse=True):
        for first in range(len(plain) - len(words) + 1):
            places = range(first, first + len(words))
            if tuple(plain[first : first + len(words)]) == words and not used & set(places):
                used |= set(places)
                yield Found((Name(words),), first, places[-1])
    if not any(not value.item.given and isinstance(value.readings[0], Name) for value in values):
        return
    run: list[int] = []
    for index in range(len(utterance.words) + 1):
        if index < len(utterance.words) and index not in used and _proper(utterance, index):
            run.append(index)
        elif run:
            words = name_words(" ".join(utterance.words[at] for at in run))
            yield Found((Name(words),), run[0], run[-1])
            run = []


def _proper(utterance: Utterance, index: int) -> bool:
    word = utterance.words[index]
    name = name_words(word)
    capital = word.lstrip("\"'(")[:1].isupper() and not utterance.initial(index)
    return capital and bool(name) and len(name[0]) > 1 and not _is_i(name[0])


def _is_i(word: str) -> bool:
    return word.startswith("i'") or word == "i"


def _flags(utterance: Utterance, values: Sequence[Carried]) -> Iterator[Found]:
    """Where a clause says or denies what a flag of the evidence is about."""
    flags = {reading.about for value in values for reading in value.readings if isinstance(reading, Flag)}
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for index in range(len(utterance.words)):
        clause = utterance.clause_words(index)
        for about in flags:
            stem, turned = _stem(utterance.plain[index])
            if stem != about[-1] or (clause[0], about) in seen:
                continue
            stems = [_stem(utterance.plain[at])[0] for at in clause]
            if all(word in stems for word in about):
                seen.add((clause[0], about))
                denied = utterance.denied_before(index) or (
                    index + 1 in clause and _denied_next(utterance, index, clause)
                )
                yield Found((Flag(about, denied == turned),), index, index)
    if len(flags) == 1:
        yield from _short_answers(utterance, next(iter(flags)))


def _denied_next(utterance: Utterance, index: int, clause: range) -> bool:
    rest = [utterance.plain[at] for at in clause if index < at <= index + 3]
    return any(word.endswith("n't") or word == "not" for word in rest)


def _stem(word: str) -> tuple[str, bool]:
    """A word in the singular, and whether a prefix turns it into its opposite."""
    for prefix in ("non-", "non", "un", "in"):
        if word.startswith(prefix) and len(word) > len(prefix) + 5:
            return singular(word.removeprefix(prefix).lstrip("-")), True
    return singular(word), False


def _short_answers(utterance: Utterance, about: tuple[str, ...]) -> Iterator[Found]:
    """A sentence that only says yes or no, where there is one question that it can answer."""
    subjects = {"it", "they", "that", "you", "there", "he", "she"}
    for first in range(len(utterance.words)):
        if not utterance.initial(first) or utterance.plain[first] not in ("yes", "no"):
            continue
        sentence = utterance.sentence_words(first)
        rest = [utterance.plain[at] for at in sentence[1:]]
        if not rest or (rest[0] in subjects and len(rest) in (2, 3)):
            yield Found((Flag(about, utterance.plain[first] == "yes"),), first, first)


def _verdict(
    assertion: _Assertion, utterance: Utterance, values: Sequence[Carried], at_us: int
) -> tuple[Verdict, Carried | None]:
    readings = assertion.found.readings
    matching = [value for value in values if agree(readings, value.readings)]
    other = [value for value in values if agree(readings, value.readings) is False and not value.item.given]
    if isinstance(readings[0], Number | Name):
        other = [value for value in other if _is_about(assertion.found, utterance, value)]
    if assertion.denied != "no":
        return _denied_verdict(assertion, matching, other, at_us)
    for verdict, chosen in (
        ("supported", [value for value in matching if value.item.stands(at_us)]),
        ("stale", [value for value in matching if value.item.arrival_us <= at_us]),
        ("premature", matching),
        ("contradicted", [value for value in other if value.item.stands(at_us)]),
    ):
        if chosen:
            newest = verdict in ("supported", "contradicted")
            decides = (max if newest else min)(chosen, key=lambda value: value.item.arrival_us)
            return verdict, decides  # type: ignore[return-value]
    return "unsupported", None


def _denied_verdict(
    assertion: _Assertion, matching: Sequence[Carried], other: Sequence[Carried], at_us: int
) -> tuple[Verdict, Carried | None]:
    """What denies a value is true where evidence that stands carries another, and false where it carries that one.

    A denial after the value may deny something else of it (`Friday is not free`), so it is never called contradicted.
    """
    standing = [value for value in matching if value.item.stands(at_us) and not value.item.given]
    if standing:
        return ("contradicted" if assertion.denied == "before" else "supported"), standing[-1]
    differing = [value for value in other if value.item.stands(at_us)]
    past = [value for value in matching if value.item.ends_us is not None and value.item.ends_us <= at_us]
    if differing or past:
        return "supported", (differing or past)[-1]
    later = [value for value in (*other, *matching) if value.item.arrival_us > at_us]
    return ("premature", later[0]) if later else ("unsupported", None)


def _is_about(found: Found, utterance: Utterance, value: Carried) -> bool:
    """Whether the words around a number or name speak of what a value of the evidence is called."""
    near = {singular(utterance.plain[at]) for at in utterance.clause_words(found.first)}
    if isinstance(found.readings[0], Name):
        before = utterance.plain[found.first - 1] if found.first else ""
        titled = before in TITLES | {"doctor"}
        return (
            bool(near & set(value.about))
            or (titled and "doctor" in value.about)
            or (titled and not value.about)
        )
    around = {
        singular(utterance.plain[at])
        for at in utterance.clause_words(found.first)
        if found.first - 3 <= at <= found.last + 2
    }
    return bool(around & set(value.about))


def _outcome_verdict(
    outcome: Outcome, items: Sequence[Item], values: Sequence[Carried], at_us: int
) -> tuple[Verdict, str | None]:
    results = [item for item in items if not item.given]
    standing = sorted((item for item in results if item.stands(at_us)), key=lambda item: item.arrival_us)
    wanted = {"done": "succeeded", "failed": "failed", "pending": "pending"}[outcome.state]
    ended = [item for item in standing if item.status != "pending"]
    if outcome.state == "pending":
        return ("stale", ended[-1].id) if ended else ("supported", standing[-1].id if standing else None)
    nothing = {
        value.item.id
        for value in values
        if isinstance(value.readings[0], Flag) and not value.readings[0].holds and value.item.stands(at_us)
    }
    right = [
        item for item in standing if item.status == wanted or (wanted == "failed" and item.id in nothing)
    ]
    if right:
        return "supported", right[-1].id
    later = [item for item in results if item.status == wanted and item.arrival_us > at_us]
    if ended:
        return "contradicted", ended[-1].id
    return ("premature", later[0].id) if later else ("unsupported", None)


def _without_withdrawn(utterance: Utterance, claims: list[Claim]) -> list[Claim]:
    """Claims, marked where a later one of their kind takes their place."""
    out = []
    for index, claim in enumerate(claims):
        following = next(
            (o for o in claims[index + 1 :] if agree(claim.readings, o.readings) is not None), None
        )
        taken_back = following is not None and utterance.withdrawn(claim.last, following.first)
        out.append(replace(claim, withdrawn=taken_back))
    return out
