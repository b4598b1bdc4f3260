"""`store.json`: what built the store. Format, configuration and its digest, and the identities (SHA-256)
of codec, tokenizer and model. No clock times, so the same build gives the same bytes.

`tokenizer.parquet` beside it holds the text tokenizer's pieces, so that frames can be read as text
without the tokenizer.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.store.digests import FileDigest
from inkplex_data.store.documents import check_format, dump_json, load_json, read_document
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.format import FORMAT
from inkplex_data.store.parquet import TableReader
from inkplex_data.store.snapshot import NEWEST_KEY, RESTORE_ROOT, Snapshot, is_listed

log = logging.getLogger(__name__)

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


def require_store(files: Files) -> None:
    """Raise StoreError where there is no store: neither `store.json` nor `newest.json`."""
    if files.size_bytes(STORE_KEY) is None and files.size_bytes(NEWEST_KEY) is None:
        raise _no_store(files)


def read_description(root: str | os.PathLike[str] | Files) -> dict[str, Any]:
    """The content of `store.json`.

    Raises StoreError if there is no store or it is of another format, StoreCorruptError for damage.
    """
    files = open_files(root)
    document = load_json(files, STORE_KEY)
    if document is None:
        raise _no_store(files)
    check_format(document, where=files.describe(STORE_KEY))
    return document


def description_of(files: Files, snapshot: Snapshot) -> dict[str, Any]:
    """What built the store, as it was when `snapshot` was published.

    The snapshot itself says it. A `store.json` that no snapshot lists is reported in the log: it was changed, or a
    build that has not finished wrote it. Raises as `read_description` does for snapshots that do not say it.
    """
    if snapshot.description is None:
        return read_description(files)
    sha256 = FileDigest.of(read_document(files, STORE_KEY) or b"").sha256
    listed = snapshot.files.get(STORE_KEY)
    if (listed is None or listed.sha256 != sha256) and not is_listed(files, STORE_KEY, sha256):
        log.warning(
            "%s is not what was published, and is not used: snapshot %d says what built the store",
            files.describe(STORE_KEY),
            snapshot.number,
        )
    return dict(snapshot.description)


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


def read_pieces(root: str | os.PathLike[str] | Files, snapshot: Snapshot) -> pl.DataFrame | None:
    """Columns id and piece, or None where the store keeps none.

    Raises StoreCorruptError for a table that is gone, or is not the one that the snapshot lists.
    """
    files = open_files(root)
    data, where = files.read(PIECES_KEY), files.describe(PIECES_KEY)
    listed = snapshot.files.get(PIECES_KEY)
    if data is None and listed is not None:
        raise StoreCorruptError("the tokenizer's table is missing", where=where, next_step=RESTORE_ROOT)
    if data is None or (snapshot.files and listed is None):
        return None
    found = FileDigest.of(data)
    if listed is not None and listed != found and not is_listed(files, PIECES_KEY, found.sha256):
        listed.check(found, where=where, next_step=RESTORE_ROOT)
    return TableReader(files, PIECES_KEY, data=data).read(columns=["id", "piece"])


def _no_store(files: Files) -> StoreError:
    return StoreError(
        "there is no store here: store.json is missing",
        where=files.root,
        next_step="Check the path, or make one with `inkplex-data build CORPUS -o STORE`.",
    )
