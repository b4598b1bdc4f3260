"""One task recording, from its JSONL to the tokens table and states that a shard takes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from inkplex_data.build import tools
from inkplex_data.build.ledger import Ledger, file_sha256, file_stamp, stamp
from inkplex_data.config import Recipe
from inkplex_data.corpus.recording import read_recording
from inkplex_data.memory.ownership import token_table

VERSION = 1
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

    `sha256` is of the file's bytes.
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


def read_one(job: RecordingJob) -> FoundRecording:
    """Read, check and tabulate one recording. Raises RecordingError for the first contradiction."""
    ledger = Ledger(job.store_root)
    done = ledger.done(KIND, job.key, job.stamp())
    if done is not None:
        return FoundRecording(**json.loads((done / "recording.json").read_text(encoding="utf-8")))
    recording = read_recording(job.path, root=job.root)
    requests = list(recording)
    tokens = token_table(requests, tokenizer=tools.tokenizer(job.recipe.text.tokenizer), source=job.path.name)
    header = recording.header
    branch = header.branch_of
    found = FoundRecording(
        path=str(job.path),
        recording_id=header.recording,
        sha256=file_sha256(job.path),
        tokens=tokens.height,
        model=header.model,
        tokenizer=header.tokenizer,
        times=header.times,
        branch_of=branch[0] if branch else None,
        branch_at_us=branch[1] if branch else None,
    )
    with ledger.result(KIND, job.key, job.stamp()) as folder:
        tokens.write_ipc(folder / "tokens.arrow")
        (folder / "recording.json").write_text(
            json.dumps(dataclasses.asdict(found), ensure_ascii=False), encoding="utf-8"
        )
    return found


def tokens_path(job: RecordingJob) -> Path:
    """Where `read_one` left the tokens table."""
    return Ledger(job.store_root).folder(KIND, job.key) / "tokens.arrow"
