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
from inkplex_data.corpus.words import SPEAKER_MAIN, TimedWord
from inkplex_data.libraries import require
from inkplex_data.speech.align.filters import in_speech, repeated, segment_fault
from inkplex_data.speech.align.forced import ForcedAligner, load_aligner
from inkplex_data.speech.align.packing import RATE_HZ, Window, pack
from inkplex_data.speech.align.timing import Span, filled, lengthened
from inkplex_data.speech.align.vad import speech_intervals
from inkplex_data.speech.align.weights import NEEDED_FOR, PACKAGED, load_whisper

Samples = npt.NDArray[np.float32]
NO_RETIMING: Final = "none"


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

    Models are loaded at their first use and kept.
    """

    def __init__(
        self,
        model: str = PACKAGED,
        *,
        retime: str = "pocketsphinx",
        language: str = "en",
        device: str = "cpu",
    ) -> None:
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
            heard = self._hear(cut, removed)
            words += self._place(heard, window, cut, speaker)
        kept = [word for word in sorted(words, key=lambda word: word.start_us) if in_speech(word, speech)]
        removed += [("outside speech", word.text) for word in words if not in_speech(word, speech)]
        return Aligned(kept, speech, removed)

    def _hear(self, cut: Samples, removed: list[tuple[str, str]]) -> list[Heard]:
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

    def _place(self, heard: list[Heard], window: Window, cut: Samples, speaker: str) -> list[TimedWord]:
        if not heard:
            return []
        spans: list[Span] = [(word.start_us, word.end_us) for word in heard]
        method = "whisper"
        found = self.align(cut, [word.text for word in heard])
        if found is not None:
            spans, method = found, f"whisper+{self.retime}"
        words: list[TimedWord] = []
        groups: dict[int, list[int]] = {}
        for index, span in enumerate(spans):
            groups.setdefault(window.stretch_of(*span), []).append(index)
        for stretch, indices in groups.items():
            low, high = (int(edge) for edge in window.source[stretch])
            own = sorted(indices, key=lambda index: spans[index])
            placed = lengthened([window.to_source(*spans[index], stretch) for index in own], low, high)
            words += [
                TimedWord(heard[index].text, start, end, speaker, heard[index].confidence, method)
                for index, (start, end) in zip(own, placed, strict=True)
                if end > start
            ]
        return words

    def align(self, samples: Samples, words: Sequence[str]) -> list[Span] | None:
        """Span of each word in float32 [n] at 16 kHz by forced alignment; None where that is off or fails."""
        if self.retime == NO_RETIMING:
            return None
        if self._forced is None:
            self._forced = load_aligner(self.retime)
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
