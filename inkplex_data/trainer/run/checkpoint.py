"""Checkpoints: one safetensors file that is replaced whole, and a readable `.meta.json` beside it.

The contract follows seeds/001, section 11. Everything that a resume needs (tensors, counters, the data
cursor, compatibility fields, ids) lies in the safetensors file, whose header carries the machine's fields as
JSON: one rename publishes all of it, so a cursor can only advance with the checkpoint that holds it. The
sidecar repeats those fields for people and holds `profile`, which is theirs: every save keeps what they wrote.

`checkpoint_id` stays for the life of a model; `revision_id` is new with each save.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crc32c
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from inkplex_data.atomic import naming_full_disks
from inkplex_data.checkpoint_sidecar import (
    EMPTY_PROFILE,
    new_id,
    read_profile,
    tensor_checksum,
    write_sidecar,
)
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError
from inkplex_data.faults import FaultError
from inkplex_data.store.files import LocalFiles
from inkplex_data.trainer.run.sharding.shard_files import (
    Files,
    all_shards,
    parts_of,
    read_whole,
    remove_shards,
    shards_folder,
)

SCHEMA = "inkplex/checkpoint@1"
SUFFIX = ".safetensors"
META_KEY = "inkplex"
CRC_KEY = "inkplex_crc32c"


@dataclass
class Checkpoint:
    """A training state.

    tensors: by name, any device. compatibility: fields that must be the same at load. cursor: where the data
    stands, exactly at these tensors. progress: other JSON values (counters, schedule, options, metrics).
    profile: what people wrote. parent: the revision that this one was saved after, None for the first. shards: files that
    hold the tensors of a divided model (`sharding.shard_files`), None where `tensors` holds all.
    """

    tensors: dict[str, Tensor]
    compatibility: dict[str, Any]
    cursor: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=lambda: dict(EMPTY_PROFILE))
    checkpoint_id: str = field(default_factory=new_id)
    revision_id: str | None = None
    parent: str | None = None
    shards: Files | None = None


def save_checkpoint(path: Path, checkpoint: Checkpoint, revision: str | None = None) -> str:
    """Write or replace the checkpoint at `path` (`….safetensors`); returns its new revision id, `revision` if given.

    A reader, also after a kill at any moment, finds the old file or the new one. `checkpoint.revision_id` and
    `.parent` advance only once the new file is in place. The profile in an existing sidecar wins over
    `checkpoint.profile`. Raises CheckpointError for values that JSON cannot hold, OSError for the disk's.
    """
    if not path.name.endswith(SUFFIX):
        raise CheckpointError(f"a checkpoint's name ends in {SUFFIX}", where=str(path))
    revision = revision or new_id()
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    meta = {**_meta(checkpoint), "revision_id": revision, "parent": checkpoint.revision_id}
    try:
        machine = json.dumps(
            {**meta, "crc32c": {name: tensor_checksum(value) for name, value in tensors.items()}},
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"a checkpoint value is not JSON: {error}", where=str(path)) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}{SUFFIX}")
    files = LocalFiles(path.parent)
    try:
        with naming_full_disks(path):
            _save_file(tensors, temporary, {META_KEY: machine, CRC_KEY: str(_text_checksum(machine))})
            files.put(temporary, path.name)
    finally:
        temporary.unlink(missing_ok=True)
    checkpoint.parent, checkpoint.revision_id = checkpoint.revision_id, revision
    remove_leftovers(path.parent)
    write_meta(path, checkpoint)
    return revision


def write_meta(path: Path, checkpoint: Checkpoint) -> None:
    """Write the `.meta.json` of the saved `checkpoint` at `path`. The profile in an existing one wins."""
    checkpoint.profile = write_sidecar(path, _meta(checkpoint), checkpoint.profile)


def remove_leftovers(folder: Path) -> None:
    """Remove what saves that were killed left in `folder`, which has one writer."""
    for leftover in folder.glob(".tmp-*"):
        leftover.unlink(missing_ok=True)
    for shards in all_shards(folder):
        path = folder / f"{shards.name.split('.')[0]}{SUFFIX}"
        revision = _revision_of(path) if path.is_file() else ""
        if revision is not None and shards_folder(path, revision) != shards:
            remove_shards(shards)


def _revision_of(path: Path) -> str | None:
    """The revision of a checkpoint, None where it cannot be read."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return str(_machine_meta(file.metadata(), path)["revision_id"])
    except (SafetensorError, OSError, CheckpointError):
        return None


def _meta(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "checkpoint_id": checkpoint.checkpoint_id,
        "revision_id": checkpoint.revision_id,
        "parent": checkpoint.parent,
        "compatibility": checkpoint.compatibility,
        "cursor": checkpoint.cursor,
        "progress": checkpoint.progress,
        **({} if checkpoint.shards is None else {"shards": checkpoint.shards}),
    }


def _save_file(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Raises OSError, where the library raises its own error with nothing but a text."""
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def load_checkpoint(path: Path, *, only: str = "", divided: bool = False) -> Checkpoint:
    """Read and verify a checkpoint, of its tensors those whose names start with `only`. divided: leave those of a divided
    model where they are.

    Raises CheckpointError where the file is not there, not ours, or damaged.
    """
    if not path.is_file():
        raise CheckpointError("there is no checkpoint here", where=str(path))
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            meta = _machine_meta(file.metadata(), path)
            tensors = {}
            for name in file.keys():  # noqa: SIM118 (not a dict)
                if name.startswith(only):
                    value: Tensor = file.get_tensor(name)  # type: ignore[no-untyped-call]
                    if meta["crc32c"].get(name) != tensor_checksum(value):
                        raise CheckpointError(
                            f"the bytes of {name} are not those that were saved",
                            where=str(path),
                            next_step="Use the checkpoint before this one.",
                        )
                    tensors[name] = value
        shards = parts_of(meta)
        if shards is not None and not divided:
            tensors |= read_whole(shards_folder(path, meta["revision_id"]), shards, only)
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the checkpoint cannot be read: {error}", where=str(path)) from error
    return Checkpoint(
        tensors=tensors,
        compatibility=meta["compatibility"],
        cursor=meta["cursor"],
        progress=meta["progress"],
        profile=read_profile(path, dict(EMPTY_PROFILE)),
        checkpoint_id=meta["checkpoint_id"],
        revision_id=meta["revision_id"],
        parent=meta["parent"],
        shards=shards,
    )


def _text_checksum(text: str) -> int:
    return int(crc32c.crc32c(text.encode()))


def _machine_meta(metadata: Mapping[str, str] | None, path: Path) -> dict[str, Any]:
    text = (metadata or {}).get(META_KEY, "")
    if text and (metadata or {}).get(CRC_KEY) != str(_text_checksum(text)):
        raise CheckpointError(
            "the header is not the one that was saved",
            where=str(path),
            next_step="Use the checkpoint before this one.",
        )
    try:
        meta = parse_json(text, words=True) if text else None
    except FaultError as error:
        raise CheckpointError(f"the checkpoint's header {error}", where=str(path)) from error
    fields = {"checkpoint_id": str, "revision_id": str, "compatibility": dict, "cursor": dict}
    fields |= {"progress": dict, "crc32c": dict}
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise CheckpointError(
            f"not a checkpoint of this trainer ({SCHEMA})",
            where=str(path),
            next_step="Load model weights with load_personaplex; checkpoints come from `inkplex-data train`.",
        )
    if wrong := [name for name, kind in fields.items() if not isinstance(meta.get(name), kind)]:
        raise CheckpointError(f"the checkpoint's header lacks {', '.join(wrong)}", where=str(path))
    meta.setdefault("parent", None)
    return meta
