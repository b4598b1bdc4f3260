"""The tensors of a divided model on disk: a folder of safetensors files beside the checkpoint that names them.

    checkpoints/update-000050.safetensors                        fields, and what every rank has whole
    checkpoints/update-000050.<revision>.shards/shard-….safetensors   each rank's parts (torch.distributed.checkpoint)

The folder is written first; the checkpoint's rename publishes it. A folder that no checkpoint names is a leftover.
Any number of ranks can read it, and so can a process alone.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import crc32c
import torch
from safetensors import SafetensorError
from torch import Tensor

from inkplex_data.errors import CheckpointError

SHARDS_SUFFIX: Final = ".shards"
_BLOCK_BYTES = 16 * 2**20

Files = dict[str, list[int]]
"""Size and CRC32C of each file of a folder, by name, as JSON values."""


def shards_folder(checkpoint: Path, revision: str) -> Path:
    """Where the divided tensors of this revision of a checkpoint lie."""
    return checkpoint.with_name(f"{checkpoint.stem}.{revision}{SHARDS_SUFFIX}")


def write_shards(folder: Path, tensors: Mapping[str, Tensor], rank: int) -> Files:
    """Write this rank's parts of divided tensors; every rank calls it. Returns this rank's files, synced to disk."""
    import torch.distributed.checkpoint as dcp  # takes seconds to load, here as below

    writer = dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True)
    dcp.save(dict(tensors), storage_writer=writer)
    files: Files = {}
    for path in sorted(folder.glob(f"shard-{rank + 1:05}-*.safetensors")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        files[path.name] = [path.stat().st_size, _checksum(path)]
    return files


def read_shards(folder: Path, into: Mapping[str, Tensor]) -> None:
    """Read divided tensors, each rank its parts; every rank calls it. Raises CheckpointError."""
    import torch.distributed.checkpoint as dcp

    try:
        dcp.load(dict(into), storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
    except (OSError, SafetensorError, dcp.CheckpointException) as error:
        raise CheckpointError(f"its divided tensors cannot be read: {error}", where=str(folder)) from error


def read_whole(folder: Path, files: Files, only: str = "") -> dict[str, Tensor]:
    """The tensors whose names start with `only`, whole, in a process alone. Raises CheckpointError for damage."""
    if fault := damage(folder, files):
        raise CheckpointError(fault, where=str(folder), next_step="Use the checkpoint before this one.")
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    reader = dcp.HuggingFaceStorageReader(str(folder))
    found = reader.read_metadata().state_dict_metadata
    tensors = {
        name: torch.empty(about.size, dtype=about.properties.dtype)
        for name, about in found.items()
        if name.startswith(only) and isinstance(about, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that this process is alone, which it is
        dcp.load(dict(tensors), storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=True)
    return tensors


def damage(folder: Path, files: Files, *, part: tuple[int, int] = (0, 1)) -> str | None:
    """What is wrong with a folder's bytes, None where nothing is. part: (i, n) looks at each n-th file from i on."""
    for name in sorted(files)[part[0] :: part[1]]:
        size, checksum = files[name]
        path = folder / Path(name).name
        if not path.is_file() or path.stat().st_size != size or _checksum(path) != checksum:
            return f"{path.name} is not the file that was saved"
    return None


def all_shards(checkpoints: Path, stem: str = "*") -> Iterator[Path]:
    """The folders of divided tensors beside checkpoints, of one of them by its name without suffix."""
    yield from checkpoints.glob(f"{stem}.*{SHARDS_SUFFIX}")


def remove_shards(folder: Path) -> None:
    """Remove a folder of divided tensors."""
    shutil.rmtree(folder, ignore_errors=True)


def parts_of(meta: Mapping[str, Any]) -> Files | None:
    """The files that a checkpoint's header names, None for one that has all its tensors itself. Raises ValueError."""
    shards = meta.get("shards")
    if shards is None:
        return None
    if not isinstance(shards, dict):
        raise ValueError("its shards are not named by file")
    return shards


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            value = crc32c.crc32c(block, value)
    return value
