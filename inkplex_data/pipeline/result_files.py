"""A stage's result as a folder of plain files, one for each field: `NAME.npy`, `NAME.arrow` or `NAME.json`.

What a field is decides its file, so a stage says what its result is and never how it is kept. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
import polars as pl
from pydantic import TypeAdapter

R = TypeVar("R")


def save_result(folder: Path, result: Any) -> None:
    """Write the fields of the dataclass `result` into `folder`.

    Arrays, mappings of names to arrays (one file each), Polars frames; all else as JSON, by its type hint.
    """
    kind: Any = type(result)
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{field.name}.npy", value, allow_pickle=False)
        elif isinstance(value, pl.DataFrame):
            with (folder / f"{field.name}.arrow").open("wb") as file:  # a path may look like a URL to Polars
                value.write_ipc(file)
        elif _holds_arrays(value):
            for key, array in value.items():
                np.save(folder / f"{field.name}.{key}.npy", array, allow_pickle=False)
            _write_json(folder / f"{field.name}.arrays.json", list(value))
        else:
            plain = _adapter(kind, field.name).dump_python(value, mode="json") if value is not None else None
            _write_json(folder / f"{field.name}.json", plain)


def load_result(folder: Path, kind: type[R]) -> R:
    """What `save_result` wrote, as a `kind`."""
    return kind(**{field.name: load_field(folder, kind, field.name) for field in fields(kind)})  # type: ignore[arg-type]


def load_field(folder: Path, kind: Any, name: str) -> Any:
    """One field of a saved `kind`, without reading the others."""
    if (path := folder / f"{name}.npy").exists():
        return np.load(path, allow_pickle=False)
    if (path := folder / f"{name}.arrow").exists():
        return pl.read_ipc(path)
    if (path := folder / f"{name}.arrays.json").exists():
        keys = json.loads(path.read_text(encoding="utf-8"))
        return {key: np.load(folder / f"{name}.{key}.npy", allow_pickle=False) for key in keys}
    text = (folder / f"{name}.json").read_bytes()
    return None if text == b"null" else _adapter(kind, name).validate_json(text)


def _holds_arrays(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(item, np.ndarray) for item in value.values())
    )


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8", errors="surrogatepass")


@cache
def _adapter(kind: Any, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(kind)[name])
