"""From evidence to a guess at the agent's channel that says how sure it is. Pure, and the same for both channels.

Every piece of evidence is a log-odds; they add up from even odds, as independent ones would. Since those of one
kind depend on each other, each kind has a limit. Left is channel 0; positive log-odds speak for it as the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, Final

from inkplex_data.speech.agent.phrases import heard

THRESHOLD: Final = 0.8
"""Confidence from which a guess is acted on. Who speaks first alone does not reach it."""
SURE: Final = 0.999
"""No guess is surer than this."""
FIRST: Final = log(3)
"""Who picks up speaks first. In calls that the agent makes it is the other way round, hence no more than 3 to 1."""
FIRST_LEAD_US: Final = 200_000
"""A shorter lead is no order: both began together."""
SAID_LIMIT: Final = log(100)
LABELLED: Final = log(99)
"""Where the words lie that a transcript gives to the agent."""
UNLABELLED: Final = log(4)
"""Where the words of a transcript without speakers lie, which was usually made from the agent's channel."""
ENOUGH_US: Final = 2_000_000
"""Words with so much speech on one side alone have their full weight."""
CHANNELS: Final = ("left", "right")


@dataclass(frozen=True)
class Evidence:
    """One reason. `log_odds` > 0 speaks for the left channel as the agent's; `told` says it in words."""

    kind: str
    log_odds: float
    told: str


@dataclass(frozen=True)
class SideGuess:
    """Which channel (0 or 1) is probably the agent's. `doubt` names what forbids acting on it, however sure it is."""

    agent_channel: int
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    doubt: str = ""

    @property
    def side(self) -> str:
        return CHANNELS[self.agent_channel]

    def decided(self, threshold: float = THRESHOLD) -> bool:
        return self.confidence >= threshold and not self.doubt

    def reasons(self) -> list[str]:
        """The evidence in words, strongest first, each with what it speaks for."""
        ordered = sorted(self.evidence, key=lambda one: (-abs(one.log_odds), one.told))
        return [f"{one.told} ({CHANNELS[one.log_odds < 0]} {_sure(one.log_odds):.2f})" for one in ordered]

    def text(self) -> str:
        if not self.evidence:
            return "confidence 0.5: nothing speaks for either side"
        doubt = f"; but {self.doubt}" if self.doubt else ""
        return f"{self.side} with confidence {self.confidence:.3f}: {'; '.join(self.reasons())}{doubt}"

    def as_json(self) -> dict[str, Any]:
        return {
            "agent": self.side,
            "confidence": round(self.confidence, 4),
            "evidence": self.reasons(),
            **({"doubt": self.doubt} if self.doubt else {}),
        }


def _sure(log_odds: float) -> float:
    return min(1.0 / (1.0 + exp(-abs(log_odds))), SURE)


def combine(evidence: Iterable[Evidence], *, doubt: str = "") -> SideGuess:
    """Add up the evidence. With none, or with as much for each side, the confidence is 0.5."""
    kept = tuple(one for one in evidence if one.log_odds)
    total = sum(one.log_odds for one in kept)
    return SideGuess(int(total < 0), _sure(total), kept, doubt)


def order_evidence(first_us: Sequence[int | None]) -> list[Evidence]:
    """From the start of each channel's first speech; None where a channel has none."""
    left, right = first_us
    if left is None or right is None or abs(left - right) < FIRST_LEAD_US:
        return []
    side = int(right < left)
    told = f"{CHANNELS[side]} speaks first, by {abs(left - right) / 1e6:.1f} s"
    return [Evidence("order", -FIRST if side else FIRST, told)]


def phrase_evidence(texts: Sequence[str]) -> list[Evidence]:
    """From the words of each channel: what both say tells nothing, and the sum stays within 100 to 1."""
    found = [heard(text) for text in texts]
    single = [(side, phrase) for side in (0, 1) for phrase in found[side] if phrase not in found[1 - side]]
    total = sum((-1 if side else 1) * phrase.log_odds for side, phrase in single)
    scale = min(1.0, SAID_LIMIT / abs(total)) if total else 1.0
    return [
        Evidence(
            "phrase", scale * (-1 if side else 1) * phrase.log_odds, f"{CHANNELS[side]} says {phrase.name!r}"
        )
        for side, phrase in single
    ]


def place_evidence(alone_us: Sequence[int], *, labelled: bool) -> list[Evidence]:
    """From the time for which each channel alone speaks within the agent's words."""
    total = sum(alone_us)
    if not total:
        return []
    lean = (alone_us[0] - alone_us[1]) / total * min(1.0, total / ENOUGH_US)
    side = int(lean < 0)
    whose = "the agent's words" if labelled else "the transcript's words, of nobody by name,"
    told = f"{max(alone_us) / total:.0%} of {whose} lie in speech of {CHANNELS[side]}"
    return [Evidence("words", lean * (LABELLED if labelled else UNLABELLED), told)]


def channel_evidence(channel: int) -> list[Evidence]:
    """From a transcript that itself says which channel is the agent's."""
    side = int(channel != 0)
    return [
        Evidence(
            "words", -LABELLED if side else LABELLED, f"the transcript calls channel {channel} the agent"
        )
    ]
