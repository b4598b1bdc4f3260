"""First pass over one call: is its audio sound, what are its words, what identifies it. Encodes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inkplex_data.audio.call_scan import AudioScan, Side
from inkplex_data.clock import frames_of_samples, samples_to_us
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.call_words import given_words
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.sidecars.sidecar import Sidecar, read_sidecar
from inkplex_data.corpus.transcripts import SpeakerRule
from inkplex_data.corpus.word_repair import TimedWord, main_speaker_faults
from inkplex_data.pipeline.calls.prepare import ready_call, turns_beside
from inkplex_data.pipeline.calls.speaker_rule import speaker_rule
from inkplex_data.pipeline.calls.speech_check import is_masked_by_check
from inkplex_data.pipeline.calls.voice_stretch import voice_stretch
from inkplex_data.pipeline.ledger import Ledger, file_sha256, file_stamp, stamp
from inkplex_data.problems import Problem, ProblemLog, without_root

VERSION = 4
KIND = "scans"


@dataclass(frozen=True)
class ScanJob:
    """One call to look at. `root` is the corpus folder."""

    entry: CallEntry
    recipe: Recipe
    store_root: Path
    root: Path

    def stamp(self) -> str:
        entry = dataclasses.asdict(dataclasses.replace(self.entry, where=""))
        files = (*self.entry.audio_paths, self.entry.words, self.entry.sidecar)
        known = turns_beside(self.entry)
        return stamp(VERSION, self.recipe.digest(), entry, [file_stamp(path) for path in (*files, known)])


@dataclass(frozen=True)
class Scan:
    """What the first pass found; `words` and `problems` lie in the ledger beside it.

    Sample counts are at 24 kHz. `voice_*_us` is the call's best stretch of agent speech, for use as
    another call's voice sample; empty where there is none. `input_sha256` covers everything that the
    stored call depends on besides the recipe and the task recording.
    """

    call_id: str
    samples: int
    agent_samples: int
    caller_samples: int
    audio_sha256: str
    input_sha256: str
    words: int
    voice_start_us: int
    voice_end_us: int
    agent_band_hz: int | None = None
    caller_band_hz: int | None = None
    is_masked: bool = False
    """Whether `check_speech` takes the call's text and agent audio out of the loss."""

    def band_hz(self, side: Side) -> int | None:
        """The highest frequency that a side uses; None where it is silent."""
        return self.agent_band_hz if side == "agent" else self.caller_band_hz

    @property
    def frames(self) -> int:
        return frames_of_samples(self.samples)

    @property
    def duration_us(self) -> int:
        return samples_to_us(self.samples)


def scan_call(job: ScanJob) -> Scan:
    """Decode once, read the words, and keep the result in the ledger.

    Raises CallRefused where the call cannot be built.
    """
    ledger = Ledger(job.store_root)
    found = ledger.done(KIND, job.entry.call_id, job.stamp())
    if found is not None:
        return Scan(**json.loads((found / "scan.json").read_text(encoding="utf-8")))
    log = ProblemLog(job.entry.call_id, strict=job.recipe.strict)
    ready = ready_call(job.entry, job.recipe, job.store_root)
    entry = ready.entry
    log.extend(ready.notes)
    found_audio = ready.audio.scan(log)
    sidecar = read_sidecar(entry.sidecar) if entry.sidecar is not None else None
    duration_us = samples_to_us(found_audio.samples)
    rule = ready.rule if ready.rule is not None else speaker_rule(entry, job.recipe)
    words, conditions = read_words(
        dataclasses.replace(job, entry=entry), sidecar, duration_us, log, rule=rule
    )
    is_masked = is_masked_by_check(
        entry.call_id,
        ready.audio.agent,
        words,
        job.recipe,
        ledger=ledger,
        log=log,
        audio_sha256=found_audio.sha256,
    )
    start_us, end_us = voice_stretch(
        words, speaker=job.recipe.text.main_speaker, limit_s=_voice_limit_s(job.recipe)
    )
    scan = Scan(
        call_id=job.entry.call_id,
        samples=found_audio.samples,
        agent_samples=found_audio.agent_samples,
        caller_samples=found_audio.caller_samples,
        audio_sha256=found_audio.sha256,
        input_sha256=_input_sha256(entry, found_audio),
        words=len(words),
        voice_start_us=start_us,
        voice_end_us=end_us,
        agent_band_hz=found_audio.band_hz["agent"],
        caller_band_hz=found_audio.band_hz["caller"],
        is_masked=is_masked,
    )
    with ledger.result(KIND, job.entry.call_id, job.stamp()) as folder:
        _dump(folder / "scan.json", dataclasses.asdict(scan))
        _dump(folder / "words.json", [dataclasses.asdict(word) for word in words])
        _dump(
            folder / "problems.json", [dataclasses.asdict(without_root(problem, job.root)) for problem in log]
        )
        _dump(folder / "conditions.json", conditions)
    return scan


def read_words(
    job: ScanJob, sidecar: Sidecar | None, duration_us: int, log: ProblemLog, *, rule: SpeakerRule
) -> tuple[list[TimedWord], Mapping[str, Any] | None]:
    """The call's repaired words and its text conditions, as the recipe's `words.source` says.

    Raises CallRefused where the agent has no words and the recipe does not say that this is meant.
    """
    entry, recipe = job.entry, job.recipe
    conditions = entry.text_conditions
    if recipe.words.source == "none":
        return [], conditions
    words, given = given_words(entry, sidecar, duration_us=duration_us, log=log, rule=rule)
    if conditions is None and not entry.swapped:
        conditions = given
    for fault in main_speaker_faults(words, recipe.text.main_speaker):
        log.add("text-all-pad", fault, item=entry.words.name if entry.words else entry.source)
    return words, conditions


def scanned_words(folder: Path) -> list[TimedWord]:
    """The words that a scan kept."""
    return [TimedWord(**word) for word in json.loads((folder / "words.json").read_text(encoding="utf-8"))]


def scanned_problems(folder: Path) -> list[Problem]:
    """The problems that a scan kept."""
    return [
        Problem(**problem) for problem in json.loads((folder / "problems.json").read_text(encoding="utf-8"))
    ]


def scanned_conditions(folder: Path) -> Mapping[str, Any] | None:
    """The text conditions that a scan kept."""
    return json.loads((folder / "conditions.json").read_text(encoding="utf-8"))


def _voice_limit_s(recipe: Recipe) -> float:
    return recipe.prefix.voice_max_s if recipe.prefix is not None else 0.0


def _input_sha256(entry: CallEntry, audio: AudioScan) -> str:
    return stamp(
        audio.sha256,
        [file_sha256(path) if path is not None else None for path in (entry.words, entry.sidecar)],
        [
            entry.recording_starts_at_us,
            entry.family,
            entry.split,
            entry.role,
            entry.voice,
            entry.text_conditions,
        ],
        entry.recording is not None,
        entry.swapped,
    )


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
