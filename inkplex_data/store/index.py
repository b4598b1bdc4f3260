"""Rebuilds the root tables from the shards' own: calls, recordings, prefixes, problems, splits.

They are an index, for other tools and for speed; each is replaced whole, by rename where there is one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import polars as pl

from inkplex_data.errors import StoreError
from inkplex_data.store.catalog import COVERS, KIND_OF, REFUSED, Catalog, IndexTable, coverage
from inkplex_data.store.files import LocalFiles, open_files
from inkplex_data.store.format import SPLIT_TABLE
from inkplex_data.store.parquet import TableWriter
from inkplex_data.store.snapshot import Snapshot, read_snapshot

_TEMPORARY = ".tmp-index-"


def rebuild_index(root: str | os.PathLike[str], snapshot: Snapshot | int | None = None) -> None:
    """Write the root tables of `snapshot`, the newest by default.

    Raises StoreError if a family is in two splits, StoreCorruptError if a shard's tables are damaged.
    """
    files = open_files(root)
    pinned = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(files, snapshot)
    catalog = _ShardCatalog(files, pinned)
    splits = family_splits(catalog.frame("calls", ["family", "split"]), where=files.root)
    # On a local root beside the targets, so that putting a file in place is one rename.
    beside = files.folder if isinstance(files, LocalFiles) else None
    for leftover in [] if beside is None else beside.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=beside) as folder:
        for table, kind in KIND_OF.items():
            metadata = {COVERS: json.dumps(coverage(pinned.of_kind(kind)))}
            if table == "problems":
                metadata[REFUSED] = str(pinned.number)
            _write(catalog, table, Path(folder) / f"{table}.parquet", metadata)
        with TableWriter(Path(folder) / "splits.parquet", SPLIT_TABLE) as writer:
            writer.write(splits)
        for name in [*sorted(KIND_OF), "splits"]:
            files.put(Path(folder) / f"{name}.parquet", f"{name}.parquet")


def family_splits(calls: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """family → split of the calls' columns, sorted by family. Raises StoreError for one in two splits."""
    splits = calls.unique().sort("family", "split")
    twice = splits.filter(pl.col("family").is_duplicated())
    if twice.height:
        family = twice["family"][0]
        found = twice.filter(pl.col("family") == family)["split"].to_list()
        raise StoreError(
            f"family {family!r} is in the splits {' and '.join(found)}",
            where=where,
            next_step="Rebuild the calls of one of them; a family stays in the split it got first.",
        )
    return splits


def _write(catalog: Catalog, table: IndexTable, path: Path, metadata: dict[str, str]) -> None:
    with TableWriter(path, catalog.schema(table), metadata=metadata) as writer:
        for part in catalog.chunks(table):
            writer.write(part)


class _ShardCatalog(Catalog):
    """Reads the shards' own tables, whatever the present index says."""

    def _index(self, table: IndexTable) -> None:
        return None
