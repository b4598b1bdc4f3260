"""One task recording, from its JSONL to the tokens table and states that a shard takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.corpus.recordings.recording import RecordingHeader, read_recording
from inkplex_data.corpus.recordings.vocabulary import ByteVocabulary
from inkplex_data.memory.capture.state_source import StateSource, state_source
from inkplex_data.memory.ownership import Ownership, tabulate
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.recording_states import FoundStates, save_states
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.pipeline.stamp import file_sha256, stamp
from inkplex_data.pipeline.standing.inputs import recording_files
from inkplex_data.problems import recording_refusal


@dataclass(frozen=True, kw_only=True)
class RecordingJob(Job):
    """One recording file to read. Its state files must not leave the corpus folder."""

    path: Path

    @property
    def key(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class FoundRecording:
    """A recording that was read and checked. `sha256` is of the file's bytes, and of the states where it brings them."""

    path: str
    recording_id: str
    sha256: str
    tokens: int
    model: str | None
    tokenizer: str | None
    times: str
    branch_of: str | None
    branch_at_us: int | None
    input_files: str
    """The recording's file and those of its states, by name and digest (`standing.inputs.recording_files`)."""
    requests: str
    """JSON text of `Ownership.chain`: which request begins with how much of which other."""
    states: FoundStates = field(default_factory=FoundStates)


@dataclass(frozen=True)
class ReadRecording:
    """A recording and its tokens in layout order; captured states lie beside them in the result's folder.

    `whole` (`memory.tables.WHOLE`) is what the words say of each token; all calls over the recording share it.
    """

    found: FoundRecording
    tokens: pl.DataFrame
    whole: pl.DataFrame


def read_one(job: RecordingJob, folder: Path) -> ReadRecording:
    """Read, check and tabulate one recording, and capture its states or check the ones it brings.

    Raises RecordingError for the first contradiction, ConfigError where the model is not to be had.
    """
    recipe = job.recipe
    recording = read_recording(job.path, root=job.build.corpus_root)
    requests = list(recording)
    tokens, words = tabulate(requests, tokenizer=tools.tokenizer(recipe.text.tokenizer), source=job.path.name)
    capture = recipe.memory.capture if recipe.memory is not None else None
    source = state_source(requests, capture, source=job.path.name, load=tools.inkling)
    header = recording.header
    _check_vocabulary(header, source, job.path)
    branch = header.fork
    states = save_states(folder, source)
    content_sha256 = file_sha256(job.path)

    def digest(path: Path) -> str:
        return content_sha256 if path == job.path else file_sha256(path)

    found = FoundRecording(
        path=str(job.path),
        recording_id=header.recording,
        sha256=content_sha256 if states.sha256 is None else stamp(content_sha256, states.sha256),
        tokens=tokens.height,
        model=header.model,
        tokenizer=header.tokenizer,
        times=header.times,
        branch_of=branch[0] if branch else None,
        branch_at_us=branch[1] if branch else None,
        input_files=recording_files(job.path, (Path(file["path"]) for file in states.files), digest),
        requests=json.dumps(Ownership(requests, source=job.path.name).chain()),
        states=states,
    )
    return ReadRecording(found, tokens, words.whole_limits(tokens))


def _check_vocabulary(header: RecordingHeader, source: StateSource | None, path: Path) -> None:
    """Refuse a trained model on byte tokens: every id is in its vocabulary, and none means what it stands for."""
    if source is None or source.kind != "captured" or header.tokenizer != ByteVocabulary.identity:
        return
    if not (source.identity or {}).get("untrained", False):
        what = f"its tokens are bytes ({ByteVocabulary.identity}), which the trained model was not made for"
        raise recording_refusal("recording-token-id", what, path.name)


def _state_files(read: ReadRecording) -> list[Path]:
    return [Path(file["path"]) for file in read.found.states.files]


RECORDING: Final = Stage(
    name="recordings",
    version=5,
    result=ReadRecording,
    run=read_one,
    recipe=("memory.capture", "text.tokenizer"),
    head="found",
    found_files=_state_files,
    unit="recordings",
    needs_device=True,
)
