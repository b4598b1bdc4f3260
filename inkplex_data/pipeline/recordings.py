"""One task recording, from its JSONL to the tokens table and states that a shard takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.corpus.recordings.prefix_chains import prefix_chain
from inkplex_data.corpus.recordings.recording import check_requests, read_recording
from inkplex_data.corpus.sidecars.model_check import ReadModel
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES
from inkplex_data.memory.capture.state_source import state_source
from inkplex_data.memory.ownership import tabulate
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.recording_states import FoundStates, save_states
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.pipeline.stamp import file_sha256, stamp
from inkplex_data.pipeline.standing.inputs import recording_files


@dataclass(frozen=True, kw_only=True)
class RecordingJob(Job):
    """One recording file to read. Its state files must not leave the corpus folder."""

    path: Path

    @property
    def key(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class FoundRecording:
    """A recording that was read and checked. `sha256` is of the file's bytes, and of the states and audio that it names."""

    path: str
    recording_id: str
    sha256: str
    tokens: int
    model: str | None
    named_model: str | None
    """The model that the recording names; `model` is that of its captured states, where it has some."""
    tokenizer: str | None
    times: str
    branch_of: str | None
    branch_at_us: int | None
    schedule: str | None
    """JSON: the declared schedule of constructed times, with its seed."""
    input_files: str
    """The recording's file and those that it names, by name and digest (`standing.inputs.recording_files`)."""
    requests: str
    """JSON text of `prefix_chain`: which request begins with how much of which other."""
    named_files: list[str] = field(default_factory=list)
    states: FoundStates = field(default_factory=FoundStates)

    def read_model(self) -> ReadModel:
        """What calls that name the recording read."""
        identity = self.states.identity or {}
        dtypes = {DTYPE_NAMES[file["dtype"]] for file in self.states.files}
        return ReadModel(
            model=self.named_model,
            states_model=identity.get("model"),
            tokenizer=self.tokenizer,
            tokens=self.tokens,
            runtime_profile=identity.get("runtime_profile"),
            input_sha256=identity.get("input_sha256"),
            width=self.states.width,
            dtype=", ".join(sorted(dtypes)) or None,
            files=tuple(sha256 for _, sha256 in json.loads(self.input_files)[1 : 1 + len(self.states.files)]),
        )


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
    header, requests = recording.header, list(recording)
    accept = recipe.memory is not None and recipe.memory.accept_unidentified_states
    check_requests(header, requests, source=job.path.name, accept_unidentified=accept)
    tokens, words = tabulate(requests, tokenizer=tools.tokenizer(recipe.text.tokenizer), source=job.path.name)
    capture = recipe.memory.capture if recipe.memory is not None else None
    source = state_source(
        header, requests, capture, source=job.path.name, load=tools.inkling, accept_unidentified=accept
    )
    branch = header.fork
    states = save_states(folder, source)
    content_sha256 = file_sha256(job.path)

    def digest(path: Path) -> str:
        return content_sha256 if path == job.path else file_sha256(path)

    brought = [Path(file["path"]) for file in states.files]
    heard = sorted({span.path for request in requests for span in request.audio})
    bits = [content_sha256, states.digests] if brought else [content_sha256]
    found = FoundRecording(
        path=str(job.path),
        recording_id=header.recording,
        sha256=content_sha256
        if len(bits) == 1 and not heard
        else stamp(*bits, [digest(path) for path in heard]),
        tokens=tokens.height,
        model=states.identity["model"] if states.kind == "captured" and states.identity else header.model,
        named_model=header.model,
        tokenizer=header.tokenizer,
        times=header.times,
        schedule=None if header.schedule is None else json.dumps(header.schedule, sort_keys=True),
        branch_of=branch[0] if branch else None,
        branch_at_us=branch[1] if branch else None,
        input_files=recording_files(job.path, [*brought, *heard], digest),
        named_files=[str(path) for path in [*brought, *heard]],
        requests=json.dumps(prefix_chain(requests)),
        states=states,
    )
    return ReadRecording(found, tokens, words.whole_limits(tokens))


def _named_files(read: ReadRecording) -> list[Path]:
    return [Path(path) for path in read.found.named_files]


RECORDING: Final = Stage(
    name="recordings",
    version=8,
    result=ReadRecording,
    run=read_one,
    recipe=("memory.capture", "memory.accept_unidentified_states", "text.tokenizer"),
    head="found",
    found_files=_named_files,
    unit="recordings",
    needs_device=True,
)
