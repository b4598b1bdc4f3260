"""First pass over one call: is its audio sound, what are its words, what identifies it. Encodes nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inkplex_data.audio.call_scan import AudioScan, Side
from inkplex_data.clock import frames_of_samples, samples_to_us
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.pipeline.calls.check_sidecar import SIDECAR_KEYS, check_sidecar
from inkplex_data.pipeline.calls.prepare import (
    PREPARE_KEYS,
    PREPARING,
    CallInput,
    main_speaker,
    prepare_call,
)
from inkplex_data.pipeline.calls.speech_check import SPEECH_CHECK, SPEECH_CHECK_KEYS, is_masked_by_check
from inkplex_data.pipeline.calls.surprise_limit import SURPRISE_KEYS, check_surprise
from inkplex_data.pipeline.calls.text_check import is_text_doubtful
from inkplex_data.pipeline.calls.voice_stretch import voice_stretch
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.pipeline.stamp import file_sha256, stamp
from inkplex_data.pipeline.standing.inputs import call_inputs
from inkplex_data.problems import Problem, ProblemLog, without_root


@dataclass(frozen=True, kw_only=True)
class ScanJob(Job):
    """One call to look at."""

    given: CallInput

    @property
    def key(self) -> str:
        return self.given.entry.call_id


@dataclass(frozen=True)
class Scan:
    """What identifies a call and how long it is: all that a plan needs to know of it.

    Sample counts are at 24 kHz. `voice_*_us` is the call's best stretch of agent speech, for use as
    another call's voice sample; empty where there is none. `input_sha256` covers everything that the
    stored call depends on besides the recipe and the task recording; `inputs` says the same of files' bytes and
    part by part, so that a later run finds out without decoding (`standing.inputs`).
    """

    call_id: str
    samples: int
    agent_samples: int
    caller_samples: int
    audio_sha256: str
    input_sha256: str
    inputs: str
    words: int
    voice_start_us: int
    voice_end_us: int
    agent_band_hz: int | None = None
    caller_band_hz: int | None = None
    agent_holes: tuple[tuple[int, int], ...] = ()
    caller_holes: tuple[tuple[int, int], ...] = ()
    """Spans that the side's file lacks inside."""
    audio_fingerprint: str = ""
    """`AudioScan.fingerprint` in base 64."""
    is_masked: bool = False
    """Whether `check_speech` takes the call's text and agent audio out of the loss."""
    is_text_masked: bool = False
    """Whether the text alone is out of the loss, because it may be that of the other side."""
    agent_rate_hz: int = 0
    caller_rate_hz: int = 0
    """Sample rates before resampling."""
    exchanged_sha256: str = ""
    """`audio_sha256` of the call with its channels exchanged."""

    def band_hz(self, side: Side) -> int | None:
        """The highest frequency that a side uses; None where it is silent."""
        return self.agent_band_hz if side == "agent" else self.caller_band_hz

    @property
    def frames(self) -> int:
        return frames_of_samples(self.samples)

    @property
    def duration_us(self) -> int:
        return samples_to_us(self.samples)


@dataclass(frozen=True)
class ScannedCall:
    """All that the first pass found. `conditions`: what the text is to be conditioned on, as the corpus says."""

    scan: Scan
    words: tuple[TimedWord, ...]
    problems: tuple[Problem, ...]
    conditions: dict[str, Any] | None


def scan_call(job: ScanJob, folder: Path) -> ScannedCall:
    """Decode once and read the words. Raises CallRefused where the call cannot be built."""
    build, recipe = job.build, job.recipe
    call_id = job.given.entry.call_id
    log = ProblemLog(call_id, strict=recipe.strict)
    prepared = prepare_call(job.given, build)
    entry = prepared.entry
    log.extend(prepared.notes)
    found = prepared.audio.scan(log)
    inputs = call_inputs(job.given.entry, job.given.turns, file_sha256)
    check_sidecar(job.given.entry, prepared, found, inputs=inputs, recipe=recipe, log=log)
    words, conditions = read_words(prepared.text, recipe, samples_to_us(found.samples), log)
    check_surprise(call_id, recipe.surprise, log)
    main = main_speaker(recipe)
    is_text_masked = main is not None and is_text_doubtful(words, found, main_speaker=main, log=log)
    is_masked = is_masked_by_check(call_id, prepared.audio, words, build, log=log, audio_sha256=found.sha256)
    start_us, end_us = voice_stretch(
        words,
        speaker=recipe.text.main_speaker,
        limit_s=recipe.prefix.voice_max_s if recipe.prefix is not None else 0.0,
    )
    scan = Scan(
        call_id=call_id,
        samples=found.samples,
        agent_samples=found.agent_samples,
        caller_samples=found.caller_samples,
        audio_sha256=found.sha256,
        input_sha256=_input_sha256(entry, found),
        inputs=inputs,
        words=len(words),
        voice_start_us=start_us,
        voice_end_us=end_us,
        agent_band_hz=found.band_hz["agent"],
        caller_band_hz=found.band_hz["caller"],
        agent_holes=found.holes["agent"],
        caller_holes=found.holes["caller"],
        audio_fingerprint=base64.b64encode(found.fingerprint).decode(),
        is_masked=is_masked,
        is_text_masked=is_text_masked,
        agent_rate_hz=found.rates_hz["agent"],
        caller_rate_hz=found.rates_hz["caller"],
        exchanged_sha256=found.exchanged_sha256,
    )
    problems = tuple(
        without_root(without_root(problem, build.corpus_root), build.ledger.root) for problem in log
    )
    return ScannedCall(scan, tuple(words), problems, dict(conditions) if conditions is not None else None)


def read_words(
    text: CallText, recipe: Recipe, duration_us: int, log: ProblemLog
) -> tuple[list[TimedWord], Mapping[str, Any] | None]:
    """The call's repaired words and its text conditions, as the recipe's `words.source` says.

    Raises CallRefused where the agent has no words and the recipe does not say that this is meant.
    """
    if recipe.words.source == "none":
        return [], text.entry.text_conditions
    return text.agent_words(duration_us=duration_us, log=log), text.conditions


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


SCAN: Final = Stage(
    name="scan",
    version=8,
    result=ScannedCall,
    run=scan_call,
    recipe=(*PREPARE_KEYS, *SIDECAR_KEYS, *SPEECH_CHECK_KEYS, *SURPRISE_KEYS, "prefix.voice_max_s"),
    after=(*PREPARING, SPEECH_CHECK),
    head="scan",
)
