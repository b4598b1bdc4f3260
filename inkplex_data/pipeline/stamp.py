"""What a result is recognised by: a digest over everything that went into it, and nothing that it does not know.

A value has one spelling or it is an error: a stamp that turned an object into its address, or two different ones
into the same text, would let a stale result pass for a fresh one.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel


def stamp(*parts: Any) -> str:
    """sha256 over the canonical JSON of `parts`. Raises TypeError for a value that has no canonical spelling."""
    text = json.dumps(canonical(parts), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: Any) -> Any:
    """`value` as JSON knows it.

    A path stands for the file's identity (`file_stamp`). Of a dataclass those fields count that count when two
    are compared, so what is for messages only (`compare=False`) does not.
    """
    if (
        value is None
        or isinstance(value, (bool, int, str))
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    if isinstance(value, Path):
        return file_stamp(value)
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: canonical(item) for key, item in value.items()}
    raise TypeError(f"a stamp cannot hold {value!r} of type {type(value).__name__}")


def file_stamp(path: Path) -> list[Any]:
    """Identity of a file that a rerun can afford to check: name, size and modification time in nanoseconds.

    A folder goes by its name alone, since it changes with every file in it. What is not there has no size.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return [str(path), None]
    if stat.S_ISDIR(status.st_mode):
        return [str(path)]
    return [str(path), status.st_size, status.st_mtime_ns]


def named_files(name: str) -> str | None:
    """Digest of the identities of the file `name`, or of all files in the folder `name`; None where nothing is there."""
    path = Path(name)
    try:
        if not path.exists():
            return None
    except (OSError, ValueError):
        return None
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return stamp([file_stamp(file) for file in files])


def file_sha256(path: Path) -> str:
    """Digest of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
