"""A known text without any times over a whole channel: Whisper's words are anchors, the aligner does the rest.

Where the text and what Whisper heard agree, its word is put there; what lies between two such places is given
their stretch, and each window is then aligned by its sound. So a call of any length is done in short windows, and
text that nobody says is found out and reported instead of being squeezed in.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.problems import refusal
from inkplex_data.speech.align.packing import pack
from inkplex_data.speech.align.transcribe import Heard, SpeechAligner
from inkplex_data.speech.align.vad import speech_intervals
from inkplex_data.speech.spoken_form import spoken

LEAST_AGREEING: Final = 0.3
"""Of a text that is spoken, `tiny.en` hears more than this even over a telephone; of another call's, less."""
ANCHOR_LETTERS: Final = 5
"""A word that agrees without its neighbours is an anchor only if it has as many letters, for "the" is everywhere, or
if as many words lie between it and the next agreement in the text as were heard there."""
WORD_US: Final = 90_000
UNHEARD_WORDS: Final = 5
HEARD_FACTOR: Final = 3
"""Between two anchors a text may have 5 words more than 3 times as many as were heard, and a word 90 ms at least;
what has more is not said there."""


@dataclass(frozen=True)
class Anchored:
    """Words with their times, and the indices of those that were found nowhere, as runs."""

    words: list[TimedWord]
    lost: list[range]


@dataclass(frozen=True)
class Place:
    """Where a word should be looked for, on the clock of all windows put one behind the other."""

    start_us: int
    end_us: int
    confidence: float | None
    anchor: bool

    @property
    def middle_us(self) -> int:
        return (self.start_us + self.end_us) // 2


def time_whole_text(
    samples: npt.NDArray[np.float32], words: Sequence[str], speakers: Sequence[str], aligner: SpeechAligner
) -> Anchored:
    """Times of `words`, each with its label of `speakers`, in float32 [n] at 16 kHz.

    Raises CallRefused (words-text-differs) where less than a third of the text is heard, and what the aligner raises.
    """
    windows = pack(speech_intervals(samples))
    offsets = [0, *itertools.accumulate(window.end_us for window in windows)]
    cuts = [window.samples(samples) for window in windows]
    heard = [
        Heard(word.text, word.start_us + offset, word.end_us + offset, word.confidence)
        for cut, offset in zip(cuts, offsets, strict=False)
        for word in aligner.hear(cut, [])
    ]
    places = places_of([_folded(word) for word in words], heard, offsets[-1])
    lost = {index for index, place in enumerate(places) if place is None}
    timed: list[TimedWord] = []
    for window, cut, (start_us, end_us) in zip(windows, cuts, itertools.pairwise(offsets), strict=True):
        own = [
            (index, place)
            for index, place in enumerate(places)
            if place is not None and start_us <= min(place.middle_us, offsets[-1] - 1) < end_us
        ]
        guesses = [
            Heard(words[at], place.start_us - start_us, place.end_us - start_us, place.confidence)
            for at, place in own
        ]
        spans = aligner.spans(cut, guesses, window.end_us)
        # A word that no sound fits and that was not heard either is lost.
        found = [
            (at, guess, span)
            for (at, place), guess, span in zip(own, guesses, spans, strict=True)
            if span is not None or place.anchor
        ]
        lost |= {at for at, _ in own} - {at for at, _, _ in found}
        timed += aligner.on_call(
            [guess for _, guess, _ in found],
            [span for _, _, span in found],
            ["whisper" if span is None else f"forced+{aligner.retime}" for _, _, span in found],
            [speakers[at] for at, _, _ in found],
            window,
        )
    return Anchored(sorted(timed, key=lambda word: word.start_us), runs(sorted(lost)))


def places_of(known: list[str], heard: list[Heard], total_us: int) -> list[Place | None]:
    """Where to look for each word; None for one that has no room there. Raises CallRefused."""
    sounding = [index for index, word in enumerate(known) if word]
    agreeing = {
        sounding[a]: b
        for a, b in _agreeing([known[index] for index in sounding], [_folded(word.text) for word in heard])
    }
    if not agreeing or len(agreeing) < LEAST_AGREEING * len(sounding):
        raise refusal(
            "words-text-differs",
            f"of {len(sounding)} words of the text {len(agreeing)} are heard where they should be",
        )
    places: list[Place | None] = [None] * len(known)
    for index, at in agreeing.items():
        places[index] = Place(heard[at].start_us, heard[at].end_us, heard[at].confidence, True)
    edges = [-1, *agreeing, len(known)]
    for before, after in itertools.pairwise(edges):
        run = range(before + 1, after)
        if not run:
            continue
        first_us = heard[agreeing[before]].end_us if before >= 0 else 0
        last_us = heard[agreeing[after]].start_us if after < len(known) else total_us
        first_heard = agreeing[before] + 1 if before >= 0 else 0
        between = (agreeing[after] if after < len(known) else len(heard)) - first_heard
        said = sum(bool(known[index]) for index in run)
        if last_us - first_us >= WORD_US * said and said <= UNHEARD_WORDS + HEARD_FACTOR * between:
            shares = [len(known[index]) + 1 for index in run]
            reached = list(itertools.accumulate(shares, initial=0))
            for index, (low, high) in zip(run, itertools.pairwise(reached), strict=True):
                span = [first_us + (last_us - first_us) * part // reached[-1] for part in (low, high)]
                places[index] = Place(span[0], span[1], None, False)
    return places


def _agreeing(known: list[str], heard: list[str]) -> list[tuple[int, int]]:
    """Pairs of indices of words that are the same, in order, without those that may be so by chance."""
    blocks = difflib.SequenceMatcher(None, known, heard, autojunk=False).get_matching_blocks()
    # The last block is empty and marks the ends of both, as the one put before them marks their beginnings.
    ends = [(-1, -1), *((block.a + block.size - 1, block.b + block.size - 1) for block in blocks)]
    found: list[tuple[int, int]] = []
    for (before_a, before_b), block, after in zip(ends, blocks, blocks[1:], strict=False):
        alike = block.a - before_a == block.b - before_b or after.a - block.a == after.b - block.b
        if block.size > 1 or alike or len(known[block.a]) >= ANCHOR_LETTERS:
            found += [(block.a + step, block.b + step) for step in range(block.size)]
    return found


def _folded(word: str) -> str:
    return "".join(spoken(word))


def runs(indices: Sequence[int]) -> list[range]:
    """Sorted numbers as runs of consecutive ones."""
    runs: list[range] = []
    for index in indices:
        if runs and runs[-1].stop == index:
            runs[-1] = range(runs[-1].start, index + 1)
        else:
            runs.append(range(index, index + 1))
    return runs
