"""A call under construction: who says what when, and the two channels that come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from corpus_maker.studio import Utterance, Word, cut_off, utter
from inkplex_data.clock import us_to_samples

Side = Literal["agent", "caller"]
LABELS: Final = {"agent": "SPEAKER_MAIN", "caller": "SPEAKER_CALLER"}

STEP: Final = 16
"""Samples are multiples of this, 12 of 16 bits: FLAC then takes two thirds of the bytes, and speech stays
some 45 dB above the rounding noise."""


@dataclass(frozen=True, eq=False)
class Turn:
    """Something that was said: times in µs of the call. `planned_end_us` lies past `end_us` where it was cut off."""

    side: Side
    text: str
    start_us: int
    end_us: int
    planned_end_us: int
    words: tuple[Word, ...]
    samples: NDArray[np.float32]
    supported_by: tuple[str, ...] = ()
    """Evidence ids that what is said here rests on."""

    @property
    def interrupted(self) -> bool:
        return self.planned_end_us > self.end_us

    @property
    def said(self) -> str:
        """The words that were begun."""
        return " ".join(word.text for word in self.words)


@dataclass
class Call:
    """Turns of both sides on one clock. `at_us` of a turn is relative to the call's first sample."""

    agent_voice: str
    caller_voice: str
    turns: list[Turn] = field(default_factory=list)

    def agent(
        self, text: str, at_us: int, *, supported_by: tuple[str, ...] = (), stop_us: int | None = None
    ) -> Turn:
        """The agent says `text`; with `stop_us` it breaks off at that time of the call."""
        return self._say("agent", self.agent_voice, text, at_us, supported_by, stop_us)

    def caller(self, text: str, at_us: int) -> Turn:
        """The caller says `text`."""
        return self._say("caller", self.caller_voice, text, at_us, (), None)

    def _say(
        self,
        side: Side,
        speaker: str,
        text: str,
        at_us: int,
        supported_by: tuple[str, ...],
        stop_us: int | None,
    ) -> Turn:
        utterance: Utterance = utter(speaker, text)
        planned_end_us = at_us + utterance.duration_us
        if stop_us is not None:
            utterance = cut_off(utterance, stop_us - at_us)
        turn = Turn(
            side=side,
            text=text,
            start_us=at_us,
            end_us=at_us + utterance.duration_us,
            planned_end_us=planned_end_us,
            words=tuple(
                Word(word.text, at_us + word.start_us, at_us + word.end_us) for word in utterance.words
            ),
            samples=utterance.samples,
            supported_by=supported_by,
        )
        self.turns.append(turn)
        return turn

    def render(self, duration_us: int) -> NDArray[np.int16]:
        """int16 [samples, 2] at 24 kHz, agent left and caller right; where nobody speaks it is digital silence."""
        mixed = np.zeros((us_to_samples(duration_us), 2), np.float64)
        for turn in self.turns:
            first = us_to_samples(turn.start_us)
            if first + len(turn.samples) > len(mixed):
                raise ValueError(f"{turn.text!r} goes on past the end of the call")
            mixed[first : first + len(turn.samples), 0 if turn.side == "agent" else 1] += turn.samples
        return (np.round(mixed * 32_768 / STEP) * STEP).astype(np.int16)

    def alignments(self) -> list[tuple[str, int, int, str]]:
        """(text, start, end, speaker label) of every word in order of time, times in µs."""
        words = [
            (word.text, word.start_us, word.end_us, LABELS[turn.side])
            for turn in self.turns
            for word in turn.words
        ]
        return sorted(words, key=lambda word: (word[1], word[2]))
