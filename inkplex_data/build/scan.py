"""First pass over one call: is its audio sound, what are its words, what identifies it. Encodes nothing."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inkplex_data.build.ledger import Ledger, file_sha256, file_stamp, stamp
from inkplex_data.clock import FRAME_US, frames_of_samples, samples_to_us
from inkplex_data.config import Recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.words import TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.problems import Problem, ProblemLog

VERSION = 1
KIND = "scans"


@dataclass(frozen=True)
class ScanJob:
    """One call to look at."""

    entry: CallEntry
    recipe: Recipe
    store_root: Path

    def stamp(self) -> str:
        entry = self.entry
        return stamp(
            VERSION,
            self.recipe.digest(),
            dataclasses.asdict(dataclasses.replace(entry, where="")),
            [file_stamp(path) for path in (*entry.audio_paths, entry.words, entry.sidecar, entry.recording)],
        )


@dataclass(frozen=True)
class Scan:
    """What the first pass found. `refusal` is set when the call cannot be built; the rest is then empty."""

    call_id: str
    samples: int = 0
    agent_samples: int = 0
    caller_samples: int = 0
    sample_rate_hz: int = 0
    audio_sha256: str = ""
    input_sha256: str = ""
    words: int = 0
    words_dropped: int = 0
    voice_start_us: int = 0
    voice_end_us: int = 0
    refusal: Problem | None = None

    @property
    def frames(self) -> int:
        return frames_of_samples(self.samples)

    @property
    def duration_us(self) -> int:
        return samples_to_us(self.samples)
