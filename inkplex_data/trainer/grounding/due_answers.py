"""Which answers are due, whether they were given, and how long after their evidence had arrived. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inkplex_data.corpus.sidecars.claims import Said
from inkplex_data.trainer.grounding.claims.carried import Item
from inkplex_data.trainer.grounding.claims.claim_verdicts import Claim, judge
from inkplex_data.trainer.grounding.claims.readings import Reading, agree
from inkplex_data.trainer.grounding.claims.utterance import Utterance

Answer = Literal["complete", "partial", "missing", "none due"]


@dataclass(frozen=True)
class Due:
    """Something that is to be said once its evidence has arrived: the words of the claim, and the sentence in which the
    call itself makes it."""

    text: str
    sentence: str
    readings: tuple[Reading, ...]
    event: str
    arrival_us: int


@dataclass(frozen=True)
class Answered:
    """What became of the answers that were due. latency_us: from the arrival of the evidence of the first answer that was
    given to its first word; None where none was. false: claims that the evidence did not carry when they were made."""

    answer: Answer
    given: int
    due: int
    false: int
    latency_us: int | None

    @property
    def right(self) -> bool:
        """All that was due is said, and nothing that could not be known."""
        return self.answer in ("complete", "none due") and not self.false


def due_answers(said: Sequence[Said], items: Sequence[Item], *, since_us: int) -> tuple[Due, ...]:
    """What a call's own agent says that rests on results from `since_us` on: once for each value."""
    arrivals = {item.id: item for item in items if not item.given}
    due: list[Due] = []
    utterance = Utterance(tuple(text for _, text in said))
    for claim in standing(judge(said, items)):
        item = arrivals.get(claim.event or "")
        if claim.verdict != "supported" or claim.denied or item is None or item.arrival_us < since_us:
            continue
        if not any(agree(claim.readings, other.readings) for other in due):
            sentence = " ".join(utterance.words[at] for at in utterance.sentence_words(claim.first))
            due.append(Due(claim.text, sentence, claim.readings, item.id, item.arrival_us))
    return tuple(due)


def standing(claims: Sequence[Claim]) -> list[Claim]:
    """Claims that the speaker does not take back."""
    return [claim for claim in claims if not claim.withdrawn]


def answered(claims: Sequence[Claim], due: Sequence[Due]) -> Answered:
    """Hold claims against what was due."""
    made = standing(claims)
    given: list[int] = []
    for one in due:
        starts = [
            claim.start_us
            for claim in made
            if claim.verdict == "supported"
            and not claim.denied
            and claim.start_us >= one.arrival_us
            and agree(claim.readings, one.readings)
        ]
        if starts:
            given.append(min(starts) - one.arrival_us)
    answer: Answer = "none due"
    if due:
        answer = "complete" if len(given) == len(due) else "partial" if given else "missing"
    false = sum(claim.verdict != "supported" for claim in made)
    return Answered(answer, len(given), len(due), false, min(given, default=None))
