"""Two diarizers of one kind: an offline default, and any pyannote.audio pipeline."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import US_PER_S
from inkplex_data.errors import CheckpointError, InkplexError
from inkplex_data.libraries import require
from inkplex_data.speech.align.vad import speech_probability
from inkplex_data.speech.diarize.cluster import best_path, speaker_centres
from inkplex_data.speech.diarize.embedding import voice_embeddings
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn

Samples = npt.NDArray[np.float32]
RATE_HZ: Final = 16_000

STEP_US: Final = 10_000
WINDOW_STEPS: Final = 160
HOP_STEPS: Final = 20
SPEECH: Final = 0.3
"""Lower than for words: a turn of quiet speech missed is worse here than some noise within it."""
TURN_PAUSE_STEPS: Final = 100
"""Pauses of up to 1 s belong to the turn, as in the reference annotation of meetings."""
INNER_PAUSE_STEPS: Final = 30
VOICED_PART: Final = 0.6
PIPELINE_FILE: Final = "config.yaml"
LEVEL: Final = 0.3
"""The detector hears distant microphones better at this level (99.5th percentile of the absolute samples)."""


class Diarizer(Protocol):
    """`name` goes into the provenance."""

    name: str

    def turns(self, samples: Samples) -> list[SpeakerTurn]:
        """Sorted turns in float32 [n] at 16 kHz; empty where nobody speaks."""
        ...


def load_diarizer(spec: str = "offline", *, speakers: int | None = None, device: str = "cpu") -> Diarizer:
    """`offline`, or a folder, configuration file or hub id of a pyannote.audio pipeline. `speakers` where known.
    `device` is the pipeline's; the offline diarizer is small and stays on the CPU.

    Raises CheckpointError and MissingLibraryError.
    """
    return OfflineDiarizer(speakers) if spec == "offline" else PyannoteDiarizer(spec, speakers, device)


class OfflineDiarizer:
    """silero-vad, voice embeddings of 1.6 s windows, Ward clustering, and the best path through the similarities.

    One speaker at a time: it cannot find overlap.
    """

    name = "silero-vad+Resemblyzer"

    def __init__(self, speakers: int | None = None) -> None:
        self._speakers = speakers

    def turns(self, samples: Samples) -> list[SpeakerTurn]:
        level = float(np.percentile(np.abs(samples), 99.5)) if len(samples) else 0.0
        if level <= 0.0:
            return []
        levelled = np.clip(samples * (LEVEL / level), -1.0, 1.0).astype(np.float32)
        steps = -(-len(samples) * US_PER_S // (RATE_HZ * STEP_US))
        # The detector judges windows of 32 ms.
        at = np.minimum(np.arange(steps) * STEP_US // 32_000, -(-len(samples) // 512) - 1)
        active = (speech_probability(levelled) >= SPEECH)[at]
        voiced = _without_pauses(active, INNER_PAUSE_STEPS)
        if not voiced.any():
            return []
        starts = np.arange(0, max(steps - WINDOW_STEPS, 0) + 1, HOP_STEPS)
        part = np.array([voiced[start : start + WINDOW_STEPS].mean() for start in starts])
        embeddings = voice_embeddings(samples, starts, WINDOW_STEPS)
        usable = embeddings[part >= min(VOICED_PART, float(part.max()))]
        centres = speaker_centres(usable, count=self._speakers)
        similar = embeddings @ centres.T
        middle = starts + WINDOW_STEPS // 2
        scores = np.stack([np.interp(np.arange(steps), middle, column) for column in similar.T], axis=1)
        speaking = np.where(_without_pauses(active, TURN_PAUSE_STEPS), best_path(scores), -1)
        return _turns(speaking, len(samples))


class PyannoteDiarizer:
    """A pyannote.audio 4 pipeline, such as `pyannote/speaker-diarization-community-1` or a local copy of it."""

    def __init__(self, spec: str, speakers: int | None = None, device: str = "cpu") -> None:
        audio = require("pyannote.audio", extra="pyannote", needed_for="a pyannote pipeline")
        self.name = f"pyannote:{Path(spec).name}"
        self._speakers = speakers
        folder = Path(spec).expanduser()
        if not folder.exists() and (folder.is_absolute() or spec.startswith((".", "~"))):
            raise _unavailable(spec, "there is no such folder")
        if folder.is_dir() and not (folder / PIPELINE_FILE).is_file():
            raise _unavailable(spec, f"the folder has no {PIPELINE_FILE}")
        try:
            pipeline = audio.Pipeline.from_pretrained(spec)
        except InkplexError:
            raise
        # The hub's errors, a configuration's faults and a missing weight file have no class in common.
        except Exception as error:
            raise _unavailable(
                spec, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            ) from error
        if pipeline is None:
            raise _unavailable(spec, "access is not granted")
        if device != "cpu":  # where it is already
            import torch

            pipeline.to(torch.device(device))
        self._pipeline: Any = pipeline

    def turns(self, samples: Samples) -> list[SpeakerTurn]:
        import torch

        given = {"waveform": torch.from_numpy(samples)[None], "sample_rate": RATE_HZ}
        result = self._pipeline(given, **({} if self._speakers is None else {"num_speakers": self._speakers}))
        # Version 4 gives several annotations, version 3 gave one.
        annotation = getattr(result, "speaker_diarization", result)
        limit_us = len(samples) * US_PER_S // RATE_HZ
        turns = [
            SpeakerTurn(max(round(part.start * 1e6), 0), min(round(part.end * 1e6), limit_us), str(speaker))
            for part, _, speaker in annotation.itertracks(yield_label=True)
        ]
        return sorted(turn for turn in turns if turn.end_us > turn.start_us)


def _unavailable(spec: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"the pyannote pipeline {spec!r} cannot be loaded: {why}",
        next_step="Name a local folder of the pipeline, or use `offline`, which needs no download.",
    )


def _without_pauses(active: npt.NDArray[np.bool_], longest: int) -> npt.NDArray[np.bool_]:
    """`active` with inner pauses of up to `longest` steps filled."""
    filled = active.copy()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8))).reshape(-1, 2)
    for (_, end), (start, _) in itertools.pairwise(edges):
        if start - end <= longest:
            filled[end:start] = True
    return filled


def _turns(speaking: npt.NDArray[np.int64], samples: int) -> list[SpeakerTurn]:
    """Runs of equal speakers; −1 is nobody."""
    borders = np.flatnonzero(np.diff(np.concatenate([[-1], speaking, [-1]])))
    limit_us = samples * US_PER_S // RATE_HZ
    return [
        SpeakerTurn(
            int(start) * STEP_US, min(int(end) * STEP_US, limit_us), f"SPEAKER_{int(speaking[start]):02d}"
        )
        for start, end in itertools.pairwise(borders)
        if speaking[start] >= 0
    ]
