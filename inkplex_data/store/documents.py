"""The store's small JSON files: one spelling when written, bounds and shape checked when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inkplex_data.corpus import jsontext
from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.faults import FaultError
from inkplex_data.store.files import RESTORE, Files
from inkplex_data.store.format import FORMAT

LIMIT_BYTES = 256 * 2**20
"""No JSON file of a store comes near this; a larger one is refused before it is read."""


def dump_json(document: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON with two-space indents and a final newline; keys keep their order."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_document(files: Files, key: str) -> bytes | None:
    """The bytes of a JSON file, or None if it is not there. Raises StoreCorruptError for a file that is too large."""
    size = files.size_bytes(key)
    if size is None:
        return None
    if size > LIMIT_BYTES:
        raise StoreCorruptError(
            f"is {size:,} bytes long, more than the {LIMIT_BYTES:,} that any such file has",
            where=files.describe(key),
            next_step=RESTORE,
        )
    return files.read(key)


def load_json(files: Files, key: str) -> dict[str, Any] | None:
    """The object in `key`, or None if the file is not there.

    Raises StoreCorruptError for a file that is too large, is no JSON, or holds no object.
    """
    data = read_document(files, key)
    return None if data is None else parse_json(data, where=files.describe(key))


def parse_value(data: bytes | str, *, where: str) -> Any:
    """The JSON value in a file or a column, within bounds. Raises StoreCorruptError for anything else."""
    try:
        return jsontext.parse_json(data)
    except FaultError as error:
        raise StoreCorruptError(str(error), where=where, next_step=RESTORE) from error


def parse_json(data: bytes, *, where: str) -> dict[str, Any]:
    """The JSON object in `data`. Raises StoreCorruptError for anything else."""
    document = parse_value(data, where=where)
    if not isinstance(document, dict):
        what = f"holds {type(document).__name__}, not a JSON object"
        raise StoreCorruptError(what, where=where, next_step=RESTORE)
    return document


def check_format(document: Mapping[str, Any], *, where: str) -> None:
    """Raise StoreError for a document of another format of stores."""
    if document.get("format") != FORMAT:
        raise StoreError(
            f"this store has format {document.get('format')!r}; this version reads format {FORMAT}",
            where=where,
            next_step="Install the inkplex-data version that wrote it, or build it again.",
        )


def take(document: Mapping[str, Any], name: str, kind: type | tuple[type, ...], *, where: str) -> Any:
    """`document[name]`, which must be of `kind`. Raises StoreCorruptError naming the field."""
    value = document.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        what = f"field {name!r} is missing or wrong (got {value!r:.80})"
        raise StoreCorruptError(what, where=where, next_step=RESTORE)
    return value
