"""Which stretch of a call can lend its voice to another call's prefix. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from inkplex_data.clock import FRAME_US, US_PER_S
from inkplex_data.corpus.word_repair import TimedWord

PAUSE_US = 500_000
"""A longer pause between two words ends a stretch: silence tells nothing of a voice."""


def voice_stretch(words: Sequence[TimedWord], *, speaker: str, limit_s: float) -> tuple[int, int]:
    """The longest run of `speaker`'s words without a long pause, whoever speaks on the other channel.

    Returns (start, end) in µs on whole frames, at most `limit_s` long, (0, 0) where there is none; the
    first of equally long runs.
    """
    limit_us = int(limit_s * US_PER_S) // FRAME_US * FRAME_US
    best = (0, 0)
    run: tuple[int, int] | None = None
    for word in sorted(words, key=lambda word: (word.start_us, word.end_us)):
        if word.speaker != speaker:
            continue
        if run is None or word.start_us - run[1] > PAUSE_US:
            run = (word.start_us, word.end_us)
        else:
            run = (run[0], max(run[1], word.end_us))
        start = -(-run[0] // FRAME_US) * FRAME_US
        end = min(run[1] // FRAME_US * FRAME_US, start + limit_us)
        if end - start > best[1] - best[0]:
            best = (start, end)
    return best
