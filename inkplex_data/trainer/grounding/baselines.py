"""What every number needs beside it: a floor that reads nothing, and a ceiling that reads the evidence itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from inkplex_data.clock import FRAME_US
from inkplex_data.corpus.sidecars.claims import Said
from inkplex_data.trainer.grounding.cases import Case
from inkplex_data.trainer.grounding.due_answers import Due

WORD_US = 4 * FRAME_US
"""From one word of a scripted answer to the next."""
REACTION_US = 2 * FRAME_US
"""From the arrival of the evidence to the oracle's first word: a token that arrives within a frame is seen by the next."""


def oracle(due: Sequence[Due]) -> list[Said]:
    """Everything that is due, in the words of the call itself, as soon as its evidence has arrived."""
    sentences: dict[str, int] = {}
    for one in due:
        sentences[one.sentence] = max(sentences.get(one.sentence, one.arrival_us), one.arrival_us)
    said: list[Said] = []
    for sentence, arrival_us in sorted(sentences.items(), key=lambda pair: pair[1]):
        begins_us = max(arrival_us + REACTION_US, said[-1][0] + WORD_US if said else arrival_us)
        said += spaced(sentence, begins_us)
    return said


def spaced(text: str, at_us: int) -> list[Said]:
    """The words of a text, one every `WORD_US`, from the first frame at or after a time on."""
    begins_us = -(-at_us // FRAME_US) * FRAME_US
    return [(begins_us + number * WORD_US, word) for number, word in enumerate(text.split())]


def commonest_answer(cases: Iterable[Case]) -> str:
    """What is due most often: the best answer that reads nothing. Of several the first by name; empty without any."""
    answers = Counter(
        " ".join(dict.fromkeys(one.sentence for one in case.branches[0].due))
        for case in cases
        if case.branches[0].due
    )
    return min(answers, key=lambda text: (-answers[text], text), default="")
