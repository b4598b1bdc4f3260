"""Whether the words of a transcript lie on the channels that the call gives them. Pure numbers.

A channel fits a speaker's words as far as it speaks within them more often than outside them. Of right calls the own
channel fits at 0.6 and more and the other one below 0; of exchanged ones it is the other way round. A channel that
always speaks, and one that never does, fit at 0, so that music, noise and silence decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import STEP_US
from inkplex_data.corpus.word_repair import SPEAKER_CALLER, SPEAKER_MAIN, TimedWord
from inkplex_data.speech.agent.place import Channels

LEAST_US: Final = 2_000_000
"""Less time within words, or outside them, tells nothing."""
SURE_FIT: Final = 0.5
SURE_UNFIT: Final = 0.1
"""Words are on the other side where the other channel fits them at `SURE_FIT` and their own below `SURE_UNFIT`."""
DOUBTFUL_LEAD: Final = 0.3
"""The side of words is doubtful where the other channel fits them better than their own, and at all, by so much."""


@dataclass(frozen=True)
class Fit:
    """How far, −1 to 1, the own and the other channel fit the words, which fill `words_us` microseconds."""

    own: float
    other: float
    words_us: int

    @property
    def is_other_side(self) -> bool:
        return self.other >= SURE_FIT and self.own < SURE_UNFIT

    @property
    def is_doubtful(self) -> bool:
        return self.other >= DOUBTFUL_LEAD and self.other - self.own >= DOUBTFUL_LEAD


def fit_of_words(
    channels: Channels, words: Sequence[TimedWord], *, main_speaker: str = SPEAKER_MAIN
) -> Fit | None:
    """The fit of a call's words, agent and labelled caller together; None where too little is said to tell.

    `channels` are the call's, agent first.
    """
    total = np.zeros(2)
    words_steps = 0
    for side, label in enumerate((main_speaker, SPEAKER_CALLER)):
        said = _within((word for word in words if word.speaker == label), channels.own.shape[1])
        count = int(said.sum())
        if min(count, len(said) - count) * STEP_US < LEAST_US:
            continue
        fits = channels.own[:, said].mean(axis=1) - channels.own[:, ~said].mean(axis=1)
        total += count * (fits if side == 0 else fits[::-1])
        words_steps += count
    if not words_steps:
        return None
    own, other = (total / words_steps).tolist()
    return Fit(own, other, words_steps * STEP_US)


def _within(words: Iterable[TimedWord], steps: int) -> npt.NDArray[np.bool_]:
    """Which steps lie in a word: bool [steps]."""
    said = np.zeros(steps, np.bool_)
    for word in words:
        said[word.start_us // STEP_US : -(-word.end_us // STEP_US)] = True
    return said
