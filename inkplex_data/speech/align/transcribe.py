"""The words of one voice: Whisper where there is speech, its words then timed by forced alignment.

Whisper's own times come from attention and collapse at the end of a window (two words within 40 ms); the aligner
places the same words by their sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.errors import ConfigError
from inkplex_data.libraries import require
from inkplex_data.speech.align.filters import in_speech, repeated, segment_fault
from inkplex_data.speech.align.forced import ForcedAligner, load_aligner
from inkplex_data.speech.align.packing import RATE_HZ, Window, pack
from inkplex_data.speech.align.timing import Span, filled, lengthened
from inkplex_data.speech.align.vad import speech_intervals
from inkplex_data.speech.align.whisper_weights import NEEDED_FOR, PACKAGED, load_whisper

Samples = npt.NDArray[np.float32]
NO_RETIMING: Final = "none"
ENGLISH: Final = ("en", "english")
ENGLISH_ONLY: Final = (PACKAGED, "pocketsphinx")
MIN_PART_WORDS: Final = 6
"""Fewer words, set between borders that Whisper guessed, are no safer than its own times."""


@dataclass(frozen=True)
class Heard:
    """A word as Whisper gives it, on the window's clock."""

    text: str
    start_us: int
    end_us: int
    confidence: float | None


@dataclass(frozen=True)
class Aligned:
    """Words of one voice, sorted, and where there was speech. `removed` lists (reason, words) of the filters."""

    words: list[TimedWord]
    speech: Intervals
    removed: list[tuple[str, str]] = field(default_factory=list)


class SpeechAligner:
    """Whisper `model` (see `load_whisper`) with the aligner `retime` (see `load_aligner`; `none` keeps its times).

    Models are loaded at their first use and kept. Raises ConfigError where `language` is not English and one of
    them knows only English.
    """

    def __init__(
        self,
        model: str = PACKAGED,
        *,
        retime: str = "pocketsphinx",
        language: str = "en",
        device: str = "cpu",
    ) -> None:
        if language not in ENGLISH and (faults := [part for part in (model, retime) if part in ENGLISH_ONLY]):
            raise ConfigError(
                f"{' and '.join(faults)} know{'s' * (len(faults) == 1)} English only, and the language is {language!r}",
                next_step="Name a multilingual Whisper, and as the aligner a CTC model for the language, or none.",
            )
        self.model, self.retime, self.language, self.device = model, retime, language, device
        self._whisper: Any = None
        self._forced: ForcedAligner | None = None

    def words(self, samples: Samples, *, speaker: str = SPEAKER_MAIN) -> Aligned:
        """Words of float32 [n] at 16 kHz, one voice. Raises MissingLibraryError and CheckpointError."""
        speech = speech_intervals(samples)
        words: list[TimedWord] = []
        removed: list[tuple[str, str]] = []
        for window in pack(speech):
            cut = window.samples(samples)
            heard = self.hear(cut, removed)
            spans = self.spans(cut, heard, window.end_us)
            methods = ["whisper" if span is None else f"whisper+{self.retime}" for span in spans]
            words += self.on_call(heard, spans, methods, [speaker] * len(heard), window)
        kept = [word for word in sorted(words, key=lambda word: word.start_us) if in_speech(word, speech)]
        removed += [("outside speech", word.text) for word in words if not in_speech(word, speech)]
        return Aligned(kept, speech, removed)

    def text(self, samples: Samples) -> str:
        """What one voice says in float32 [n] at 16 kHz, without times. Raises as `words` does."""
        windows = pack(speech_intervals(samples))
        return " ".join(word.text for window in windows for word in self.hear(window.samples(samples), []))

    def hear(self, cut: Samples, removed: list[tuple[str, str]]) -> list[Heard]:
        """What Whisper hears in a window; what its filters take out is added to `removed`."""
        timestamped = require("whisper_timestamped", extra="align", needed_for=NEEDED_FOR)
        if self._whisper is None:
            self._whisper = load_whisper(self.model, device=self.device)
        result = timestamped.transcribe_timestamped(
            self._whisper,
            cut,
            language=self.language,
            temperature=0.0,
            condition_on_previous_text=False,
            verbose=None,
        )
        heard: list[Heard] = []
        for segment in result["segments"]:
            fault = segment_fault(segment)
            if fault is not None:
                removed.append((fault, segment["text"].strip()))
                continue
            # whisper-timestamped gives numpy numbers, which JSON does not take.
            heard += [
                Heard(
                    word["text"].strip(),
                    seconds_to_us(float(word["start"])),
                    seconds_to_us(float(word["end"])),
                    float(word["confidence"]),
                )
                for word in segment.get("words", ())
                if word["text"].strip()
            ]
        surplus = repeated([word.text for word in heard])
        removed += [("repetition", word.text) for word, extra in zip(heard, surplus, strict=True) if extra]
        return [word for word, extra in zip(heard, surplus, strict=True) if not extra]

    def spans(self, cut: Samples, heard: list[Heard], end_us: int) -> list[Span | None]:
        """Where the words of a window [0, end) are by their sound; None for those that it does not fit."""
        return self._align_parts(cut, heard, 0, end_us) if heard else []

    def on_call(
        self,
        heard: list[Heard],
        spans: list[Span | None],
        methods: list[str],
        speakers: list[str],
        window: Window,
    ) -> list[TimedWord]:
        """Words of a window on the call's clock, long enough and disjoint; one without a span keeps its times."""
        known = [
            span if span is not None else (word.start_us, word.end_us)
            for span, word in zip(spans, heard, strict=True)
        ]
        words: list[TimedWord] = []
        groups: dict[int, list[int]] = {}
        for index, span in enumerate(known):
            groups.setdefault(window.stretch_of(*span), []).append(index)
        for stretch, indices in groups.items():
            low, high = (int(edge) for edge in window.source[stretch])
            own = sorted(indices, key=lambda index: known[index])
            placed = lengthened([window.to_source(*known[index], stretch) for index in own], low, high)
            words += [
                TimedWord(
                    heard[index].text, start, end, speakers[index], heard[index].confidence, methods[index]
                )
                for index, (start, end) in zip(own, placed, strict=True)
                if end > start
            ]
        return words

    def _align_parts(self, cut: Samples, heard: list[Heard], low_us: int, high_us: int) -> list[Span | None]:
        """Spans by sound of words in [low, high) of a window; None for those whose part fits no path.

        One misheard phrase makes a whole window unalignable, so a part that fails is halved at the longest pause
        that Whisper found near its middle.
        """
        count = len(heard)
        part = cut[low_us * RATE_HZ // 1_000_000 : high_us * RATE_HZ // 1_000_000]
        found = self.align(part, [word.text for word in heard])
        if found is not None:
            return [(start + low_us, end + low_us) for start, end in found]
        if count < MIN_PART_WORDS or self.retime == NO_RETIMING:
            return [None] * count
        middle = range(count // 4 + 1, count - count // 4)
        at = max(middle, key=lambda index: heard[index].start_us - heard[index - 1].end_us)
        border = (heard[at - 1].end_us + heard[at].start_us) // 2
        if not low_us < border < high_us:
            return [None] * count
        return self._align_parts(cut, heard[:at], low_us, border) + self._align_parts(
            cut, heard[at:], border, high_us
        )

    def align(self, samples: Samples, words: Sequence[str]) -> list[Span] | None:
        """Span of each word in float32 [n] at 16 kHz by forced alignment; None where that is off or fails."""
        if self.retime == NO_RETIMING:
            return None
        if self._forced is None:
            self._forced = load_aligner(self.retime, device=self.device)
        found = self._forced.align(samples, words)
        return None if found is None else filled(found, 0, len(samples) * 1_000_000 // RATE_HZ)

    def time_text(
        self,
        samples: Samples,
        words: Sequence[str],
        *,
        start_us: int = 0,
        end_us: int | None = None,
        speaker: str = SPEAKER_MAIN,
    ) -> list[TimedWord] | None:
        """Times of a known text within [start, end) of float32 [n] at 16 kHz; None where it does not fit the sound."""
        total_us = len(samples) * 1_000_000 // RATE_HZ
        end_us = total_us if end_us is None else min(end_us, total_us)
        cut = samples[start_us * RATE_HZ // 1_000_000 : end_us * RATE_HZ // 1_000_000]
        found = self.align(cut, words)
        if found is None:
            return None
        placed = lengthened(
            [(start + start_us, min(end + start_us, end_us)) for start, end in found], start_us, end_us
        )
        return [
            TimedWord(text, start, end, speaker, None, f"forced+{self.retime}")
            for text, (start, end) in zip(words, placed, strict=True)
            if end > start
        ]
