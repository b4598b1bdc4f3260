"""A recording's states between the unit that found them and the shard that takes them.

Captured ones are written into the ledger, for computing them twice is dear, and leave it for the shard that takes
them: beside one shard in the making they lie once on the disk. Imported ones stay in their files, which are read and
checked once here, and once more when the shard is written.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.recordings.states_identity import StatesIdentity
from inkplex_data.memory.capture.imported_states import StatesFile
from inkplex_data.memory.capture.state_source import ImportedStates, StateSource
from inkplex_data.pipeline.ledger import MovedFiles, forget_moved, moved_files, note_moved
from inkplex_data.store.arrays.states_write import StatesReader, StatesWriter

FOLDER = "states"
BLOCK_ROWS = 512


@dataclass(frozen=True)
class FoundStates:
    """What states a recording has, in plain values. `kind` is captured, imported or none; `width` 0 without.

    `identity`: the fields of their `StatesIdentity`. `digests`: per request its number, rows, and the SHA-256 of them
    as little-endian bits in layout order. `files`: the fields of the `StatesFile`s, where the recording brings them.
    """

    kind: str = "none"
    width: int = 0
    identity: dict[str, Any] | None = None
    digests: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)

    @property
    def described(self) -> dict[str, Any] | None:
        """The model without the recording's input: what all recordings of a store share, as `store.json` has it."""
        return None if self.identity is None else StatesIdentity.model_validate(self.identity).described()


def save_states(folder: Path, source: StateSource | None) -> FoundStates:
    """Capture into `folder`, or check the files of imported states. Raises RecordingError."""
    if source is None:
        return FoundStates()
    identity = source.identity
    digests: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    blocks = _digested(source.blocks(), digests)
    if isinstance(source, ImportedStates):
        files = [dataclasses.asdict(file) | {"path": str(file.path)} for file in source.files]
        for _ in blocks:
            pass
    else:
        with StatesWriter(folder / FOLDER, identity.width) as writer:
            for block in blocks:
                writer.append(block)
    kind = "captured" if identity.captured else "imported"
    return FoundStates(kind, identity.width, identity.as_dict(), digests, files)


def load_states(folder: Path, found: FoundStates) -> Iterator[NDArray[np.uint16]]:
    """The states again, in layout order: uint16 [n, 3, D] each. Raises RecordingError, StoreCorruptError."""
    if found.files:
        for file in found.files:
            yield from StatesFile(**(file | {"path": Path(file["path"])})).blocks()
    elif found.width:
        moved = moved_files(folder)
        array = folder / FOLDER if moved is None else moved.shard / "arrays.zarr" / "states"
        first = 0 if moved is None else moved.first
        stop = first + sum(one["rows"] for one in found.digests)
        with StatesReader(array) as reader:
            for start in range(first, stop, BLOCK_ROWS):
                yield reader.read_rows(start, min(start + BLOCK_ROWS, stop))


def move_states(folder: Path, found: FoundStates, shard: Path, first: int) -> None:
    """A published shard holds captured states from row `first` on: they need not lie in the ledger as well."""
    if found.width and not found.files and (folder / FOLDER).is_dir():
        note_moved(folder, FOLDER, MovedFiles(shard, first))
        shutil.rmtree(folder / FOLDER)


def fetch_states(folder: Path, found: FoundStates) -> None:
    """Bring states back whose shard is about to go."""
    if moved_files(folder) is None:
        return
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    with StatesWriter(folder / FOLDER, found.width) as writer:
        for block in load_states(folder, found):
            writer.append(block)
    forget_moved(folder)


def _digested(
    blocks: Iterable[tuple[int, NDArray[np.uint16]]], digests: list[dict[str, Any]]
) -> Iterator[NDArray[np.uint16]]:
    """The blocks of all requests; at the end of each request its digest is in `digests`."""
    digest = hashlib.sha256()
    for request, block in blocks:
        if not digests or digests[-1]["request"] != request:
            digest = hashlib.sha256()
            digests.append({"request": request, "rows": 0, "sha256": ""})
        digest.update(np.ascontiguousarray(block, "<u2").data)
        digests[-1]["rows"] += len(block)
        digests[-1]["sha256"] = digest.hexdigest()
        yield block
