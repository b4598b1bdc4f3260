"""One task recording, from its JSONL to the tokens table and states that a shard takes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.recordings.recording import RecordingHeader, read_recording
from inkplex_data.corpus.recordings.vocabulary import ByteVocabulary
from inkplex_data.memory.capture.state_source import StateSource, state_source
from inkplex_data.memory.ownership import token_table
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.ledger import Ledger, file_sha256, file_stamp, stamp
from inkplex_data.pipeline.recording_states import FoundStates, save_states
from inkplex_data.problems import recording_refusal

VERSION = 2
KIND = "recordings"


@dataclass(frozen=True)
class RecordingJob:
    """One recording file to read. `root` is the corpus folder, which its state files must not leave."""

    path: Path
    root: Path
    recipe: Recipe
    store_root: Path

    @property
    def key(self) -> str:
        return str(self.path)

    def stamp(self) -> str:
        return stamp(VERSION, self.recipe.digest(), file_stamp(self.path))


@dataclass(frozen=True)
class FoundRecording:
    """A recording that was read and checked; its tokens lie in the ledger as `tokens.arrow`.

    `sha256` is of the file's bytes, and of the states where it brings them.
    """

    path: str
    recording_id: str
    sha256: str
    tokens: int
    model: str | None
    tokenizer: str | None
    times: str
    branch_of: str | None
    branch_at_us: int | None
    states: FoundStates = field(default_factory=FoundStates)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> FoundRecording:
        return cls(**(fields | {"states": FoundStates(**fields["states"])}))


def read_one(job: RecordingJob) -> FoundRecording:
    """Read, check and tabulate one recording, and capture its states or check the ones it brings.

    Raises RecordingError for the first contradiction, ConfigError where the model is not to be had.
    """
    ledger = Ledger(job.store_root)
    done = ledger.done(KIND, job.key, job.stamp())
    if done is not None:
        known = FoundRecording.from_dict(json.loads((done / "recording.json").read_text(encoding="utf-8")))
        if known.states.unchanged():
            return known
    recording = read_recording(job.path, root=job.root)
    requests = list(recording)
    tokens = token_table(requests, tokenizer=tools.tokenizer(job.recipe.text.tokenizer), source=job.path.name)
    memory = job.recipe.memory
    source = state_source(
        requests, memory.capture if memory else None, source=job.path.name, load=tools.inkling
    )
    header = recording.header
    _check_vocabulary(header, source, job.path)
    branch = header.branch_of
    with ledger.result(KIND, job.key, job.stamp()) as folder:
        tokens.write_ipc(folder / "tokens.arrow")
        states = save_states(folder, source)
        content_sha256 = file_sha256(job.path)
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
            states=states,
        )
        (folder / "recording.json").write_text(
            json.dumps(found.as_dict(), ensure_ascii=False), encoding="utf-8"
        )
    return found


def _check_vocabulary(header: RecordingHeader, source: StateSource | None, path: Path) -> None:
    """Refuse a trained model on byte tokens: every id is in its vocabulary, and none means what it stands for."""
    if source is None or source.kind != "captured" or header.tokenizer != ByteVocabulary.identity:
        return
    if not (source.identity or {}).get("untrained", False):
        what = f"its tokens are bytes ({ByteVocabulary.identity}), which the trained model was not made for"
        raise recording_refusal("recording-token-id", what, path.name)


def tokens_path(job: RecordingJob) -> Path:
    """Where `read_one` left the tokens table."""
    return Ledger(job.store_root).folder(KIND, job.key) / "tokens.arrow"
