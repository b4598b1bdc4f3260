"""`store.json`: what built the store. Format, configuration and its digest, and the identities (SHA-256)
of codec, tokenizer and model. No clock times, so the same build gives the same bytes.

`tokenizer.parquet` beside it holds the text tokenizer's pieces, so that frames can be read as text
without the tokenizer.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from inkplex_data.errors import StoreError
from inkplex_data.store.documents import dump_json, load_json
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.format import FORMAT
from inkplex_data.store.parquet import TableReader

STORE_KEY = "store.json"
PIECES_KEY = "tokenizer.parquet"
PIECES = {"id": pl.Int32(), "piece": pl.String()}


def configuration_digest(configuration: Mapping[str, Any]) -> str:
    """SHA-256 of a configuration's canonical JSON: sorted keys, no spaces."""
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_description(root: str | os.PathLike[str], description: Mapping[str, Any]) -> None:
    """Write `store.json` whole; `format` is put in front."""
    rest = {name: value for name, value in description.items() if name != "format"}
    open_files(root).write(STORE_KEY, dump_json({"format": FORMAT, **rest}))


def read_description(root: str | os.PathLike[str] | Files) -> dict[str, Any]:
    """The content of `store.json`.

    Raises StoreError if there is no store or it is of another format, StoreCorruptError for damage.
    """
    files = open_files(root)
    document = load_json(files, STORE_KEY)
    if document is None:
        raise StoreError(
            "there is no store here: store.json is missing",
            where=files.root,
            next_step="Check the path, or make one with `inkplex-data build CORPUS -o STORE`.",
        )
    if document.get("format") != FORMAT:
        raise StoreError(
            f"this store has format {document.get('format')!r}; this version reads format {FORMAT}",
            where=files.describe(STORE_KEY),
            next_step="Install the inkplex-data version that wrote it, or build it again.",
        )
    return document


def write_pieces(root: str | os.PathLike[str], pieces: Sequence[str]) -> None:
    """Keep the text tokenizer's pieces in the store; index in `pieces` is the id."""
    table = pl.DataFrame({"id": range(len(pieces)), "piece": list(pieces)}, schema=PIECES)
    buffer = io.BytesIO()
    pq.write_table(
        table.to_arrow(compat_level=pl.CompatLevel.oldest()),
        buffer,
        compression="zstd",
        write_page_checksum=True,
    )
    open_files(root).write(PIECES_KEY, buffer.getvalue())


def read_pieces(root: str | os.PathLike[str] | Files) -> pl.DataFrame | None:
    """Columns id and piece, or None where the store keeps none. Raises StoreCorruptError."""
    files = open_files(root)
    if files.size_bytes(PIECES_KEY) is None:
        return None
    return TableReader(files, PIECES_KEY).read(columns=["id", "piece"])
