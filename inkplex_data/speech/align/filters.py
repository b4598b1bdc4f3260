"""What is taken out of a transcriber's result: invented, repeated and misplaced words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from inkplex_data.audio.turns import Intervals
from inkplex_data.corpus.word_repair import TimedWord

NO_SPEECH: Final = 0.6
LOW_LOGPROB: Final = -1.0
COMPRESSION: Final = 2.4
"""Whisper's own thresholds: above the first with a mean log-probability under the second nobody spoke, and text
that compresses better than the third repeats itself."""
MAX_PHRASE: Final = 12
MAX_REPEATS: Final = 4
"""People say "no, no, no"; the same phrase more often in a row than this is the decoder in a loop."""


def segment_fault(segment: Mapping[str, Any]) -> str | None:
    """Why a Whisper segment is not believed, or None."""
    no_speech, logprob = segment.get("no_speech_prob", 0.0), segment.get("avg_logprob", 0.0)
    if no_speech > NO_SPEECH and logprob < LOW_LOGPROB:
        return f"no speech ({no_speech:.2f})"
    ratio = segment.get("compression_ratio", 1.0)
    if ratio > COMPRESSION:
        return f"repetition (compression {ratio:.2f})"
    return None


def repeated(texts: Sequence[str]) -> list[bool]:
    """Which words are the surplus of a phrase of up to 12 words said more than 4 times in a row: all but the first."""
    folded = ["".join(c for c in text.casefold() if c.isalnum()) or text for text in texts]
    surplus = [False] * len(folded)
    place = 0
    while place < len(folded):
        step = 1
        for length in range(1, MAX_PHRASE + 1):
            phrase = folded[place : place + length]
            times = 1
            while folded[place + times * length : place + (times + 1) * length] == phrase:
                times += 1
            if times > MAX_REPEATS:
                step = times * length
                surplus[place + length : place + step] = [True] * (step - length)
                break
        place += step
    return surplus


def inside_us(start_us: int, end_us: int, speech: Intervals) -> int:
    """How much of [start, end) lies in the sorted, disjoint intervals."""
    return int(np.maximum(np.minimum(speech[:, 1], end_us) - np.maximum(speech[:, 0], start_us), 0).sum())


def in_speech(word: TimedWord, speech: Intervals) -> bool:
    """Whether at least half of the word is in speech."""
    return 2 * inside_us(word.start_us, word.end_us, speech) >= word.end_us - word.start_us
