"""Utterances at 24 kHz: synthesised, levelled, sent over the telephone, with word times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

from corpus_maker.espeak import Voice, say_alone
from inkplex_data.clock import SAMPLE_RATE_HZ, samples_to_us, us_to_samples

PEAK: Final = 0.25
DESK_HZ: Final = 16_000
TELEPHONE_HZ: Final = 8_000
"""Sample rates of the line that a voice comes over: wideband for the agents, the old telephone for callers."""
FADE_US: Final = 20_000
"""A speaker who is cut off stops within this time."""


@dataclass(frozen=True)
class Word:
    """A spoken word; µs from the beginning of its utterance, or of the call once it is placed."""

    text: str
    start_us: int
    end_us: int


@dataclass(frozen=True, eq=False)
class Utterance:
    """float32 samples at 24 kHz and the words in them."""

    text: str
    samples: NDArray[np.float32]
    words: tuple[Word, ...]

    @property
    def duration_us(self) -> int:
        """End of the last word."""
        return self.words[-1].end_us


@dataclass(frozen=True)
class Speaker:
    """A voice and the sample rate of the line that it comes over."""

    voice: Voice
    line_hz: int


AGENTS: Final = {
    "anna": Speaker(Voice("en-gb-x-rp+f3", pitch=55, words_per_minute=178), DESK_HZ),
    "brian": Speaker(Voice("en+m3", pitch=42, words_per_minute=178), DESK_HZ),
    "carla": Speaker(Voice("en-us+f5", pitch=50, words_per_minute=175), DESK_HZ),
}
CALLERS: Final = {
    "fiona": Speaker(Voice("en-gb-scotland+f2", pitch=52, words_per_minute=172), TELEPHONE_HZ),
    "gareth": Speaker(Voice("en-gb-x-gbclan+m1", pitch=45, words_per_minute=178), TELEPHONE_HZ),
    "henry": Speaker(Voice("en-us+m7", pitch=40, words_per_minute=176), TELEPHONE_HZ),
    "iris": Speaker(Voice("en+f4", pitch=58, words_per_minute=182), TELEPHONE_HZ),
}
SPEAKERS: Final = AGENTS | CALLERS


@cache
def utter(speaker: str, text: str) -> Utterance:
    """`text` in the voice of `speaker`, at a common peak level."""
    profile = SPEAKERS[speaker]
    speech = say_alone(text, profile.voice)
    samples = soxr.resample(speech.samples.astype(np.float64), speech.sample_rate_hz, SAMPLE_RATE_HZ, "VHQ")
    line = soxr.resample(samples, SAMPLE_RATE_HZ, profile.line_hz, "VHQ")
    samples = soxr.resample(line, profile.line_hz, SAMPLE_RATE_HZ, "VHQ")
    samples *= PEAK / np.abs(samples).max()
    words = tuple(
        Word(word, samples_to_us(start, speech.sample_rate_hz), samples_to_us(end, speech.sample_rate_hz))
        for word, start, end in speech.words
    )
    return Utterance(text, samples.astype(np.float32), words)


def cut_off(utterance: Utterance, after_us: int) -> Utterance:
    """`utterance` broken off at `after_us`: the word that is being said then ends there."""
    fade = us_to_samples(FADE_US)
    end = us_to_samples(after_us)
    samples = utterance.samples[:end].copy()
    samples[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    words = tuple(
        Word(word.text, word.start_us, min(word.end_us, after_us))
        for word in utterance.words
        if word.start_us < after_us
    )
    return Utterance(utterance.text, samples, words)


def espeak_version() -> str:
    """Version of the installed espeak-ng."""
    return say_alone("", SPEAKERS["anna"].voice).version
