"""A recording's states between the unit that found them and the shard that takes them.

Captured ones are written into the ledger, for computing them twice is dear. Imported ones stay in their
files, which are read and checked once here, and once more when the shard is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inkplex_data.memory.capture.imported_states import StatesFile
from inkplex_data.memory.capture.state_source import ImportedStates, StateSource
from inkplex_data.store.arrays.states_write import StatesReader, StatesWriter

FOLDER = "states"
BLOCK_ROWS = 512


@dataclass(frozen=True)
class FoundStates:
    """What states a recording has, in plain values. `kind` is captured, imported or none; `width` 0 without.

    `files` are the fields of the `StatesFile`s of imported states; `sha256` is of imported bits, None
    otherwise, because captured ones follow from the recording and the recipe.
    """

    kind: str = "none"
    width: int = 0
    identity: dict[str, Any] | None = None
    sha256: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


def save_states(folder: Path, source: StateSource | None) -> FoundStates:
    """Capture into `folder`, or check the files of imported states. Raises RecordingError."""
    if source is None:
        return FoundStates()
    if isinstance(source, ImportedStates):
        files = [dataclasses.asdict(file) | {"path": str(file.path)} for file in source.files]
        return FoundStates(source.kind, source.width, source.identity, source.sha256(), files)
    with StatesWriter(folder / FOLDER, source.width) as writer:
        for chunk in source.chunks():
            writer.append(chunk)
    return FoundStates(source.kind, source.width, source.identity)


def load_states(folder: Path, found: FoundStates) -> Iterator[NDArray[np.uint16]]:
    """The states again, in layout order: uint16 [n, 3, D] each. Raises RecordingError, StoreCorruptError."""
    if found.kind == "imported":
        files = tuple(StatesFile(**(file | {"path": Path(file["path"])})) for file in found.files)
        yield from ImportedStates(files).chunks()
    elif found.kind == "captured":
        with StatesReader(folder / FOLDER) as reader:
            for start in range(0, len(reader), BLOCK_ROWS):
                yield reader.read_rows(start, min(start + BLOCK_ROWS, len(reader)))
