"""What is said of a request as a whole: that it failed, that it is done, or that nothing has come back yet. Pure; English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from inkplex_data.trainer.grounding.claims.readings import Outcome
from inkplex_data.trainer.grounding.claims.utterance import Utterance
from inkplex_data.trainer.grounding.claims.values import Found

State = Literal["pending", "done", "failed"]

_CANNOT = (
    r"(?:could not|couldn't|cannot|can't|was not able to|wasn't able to|am unable to|was unable to|unable to)"
)
_DONE = r"(?:booked|confirmed|completed|reserved|cancelled|processed|sent|updated|scheduled|rescheduled)"
_PATTERNS: Final[tuple[tuple[State, re.Pattern[str]], ...]] = (
    (
        "failed",
        re.compile(
            rf"\b(?:failed|timed out|went wrong|(?:did not|didn't) (?:go through|work)|{_CANNOT} "
            r"(?:reach|get|load|complete|book|access|retrieve|connect|find|look|pull)|(?:returned|was|is|got|an) error|"
            r"(?:system|service|tool|line) is down)\b"
        ),
    ),
    (
        "pending",
        re.compile(
            r"\b(?:still (?:waiting|pending|loading)|(?:is|are) (?:still )?pending|no (?:result|answer|reply) yet|"
            r"(?:has not|hasn't|have not|haven't) (?:come back|arrived|heard back|received))\b"
        ),
    ),
    (
        "done",
        re.compile(
            rf"\b(?:(?:is|are|was|has been|have been|been|you're|you are) (?:now )?{_DONE}|(?:i've|i have|i) {_DONE}|"
            r"went through)\b"
        ),
    ),
)
_NEGATED = re.compile(
    r"\b(?:not|never|n't|isn't|hasn't|haven't|wasn't|aren't|before|once|when|until|after)\b"
)


def said_outcomes(utterance: Utterance) -> Iterator[Found]:
    """What each clause says of the request, if anything; at most one outcome a clause."""
    for number in dict.fromkeys(utterance.clause):
        places = [at for at, own in enumerate(utterance.clause) if own == number]
        words = [utterance.plain[at] for at in places]
        text = " ".join(words)
        for state, pattern in _PATTERNS:
            match = pattern.search(text)
            if match is None or (state == "done" and _NEGATED.search(text)):
                continue
            first = text[: match.start()].count(" ")
            last = text[: match.end()].count(" ")
            yield Found((Outcome(state),), places[first], places[last])
            break
