"""A shard of another store under a new number: its small tables as they are given, every other file the same one.

On one file system a file is a hard link, which costs nothing and is safe because published files never change; elsewhere
it is copied, and compared with its digest.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.errors import StoreCorruptError
from inkplex_data.store.digests import FileDigest, digest_file
from inkplex_data.store.files import RESTORE
from inkplex_data.store.parquet import Compression, Schema, TableReader, TableWriter
from inkplex_data.store.publish import ShardInfo, StagedShard
from inkplex_data.store.reader import Store
from inkplex_data.store.shard import LOADED_TABLES

_NO_LINK: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS}
)
"""What a file system answers that cannot link here, or will not link this file."""


@dataclass(frozen=True)
class NewTable:
    """A table to write, a row group at a time."""

    schema: Schema
    groups: Iterable[pl.DataFrame]


def write_linked_shard(
    root: Path, shard: int, store: Store, info: ShardInfo, tables: Mapping[str, NewTable]
) -> None:
    """Publish shard `info` of `store` in the store at `root` as number `shard`, with `tables` in place of its own.

    Raises StoreCorruptError for a file that is another than was published, or that lies outside of its store.
    """
    staged = StagedShard(root, info.kind, shard)
    try:
        same = {
            name: digest for name, digest in info.files.items() if name.removesuffix(".parquet") not in tables
        }
        for name, digest in same.items():
            place = staged.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(_own_file(store, f"{info.key}/{name}"), place, digest)
        counts = dict(info.counts)
        for name, table in tables.items():
            compression: Compression = "lz4" if name in LOADED_TABLES else "zstd"
            path = staged.folder / f"{name}.parquet"
            with TableWriter(path, table.schema, compression=compression) as writer:
                for group in table.groups:
                    writer.write(group)
            counts[name] = writer.rows
        staged.publish(counts, known=same)
    finally:
        staged.abort()


def renumbered(
    store: Store, info: ShardInfo, name: str, column: str, new: Mapping[int, int]
) -> dict[str, NewTable]:
    """The table `name` of a shard with other numbers in `column`, under its name; nothing where the shard has no such
    table."""
    if f"{name}.parquet" not in info.files:
        return {}
    table = stored_table(store, info, name)
    dtype = table.schema[column]

    def groups() -> Iterator[pl.DataFrame]:
        for group in table.chunks():
            yield group.with_columns(pl.col(column).replace_strict(dict(new), return_dtype=dtype))

    return {name: NewTable(table.schema, groups())}


def stored_table(store: Store, info: ShardInfo, name: str) -> TableReader:
    """A table of a shard as it was written, without the columns that came later."""
    file = f"{name}.parquet"
    key = f"{info.key}/{file}"
    return TableReader(store.files, key, digest=info.digest(file, where=store.files.describe(key)))


def _own_file(store: Store, key: str) -> Path:
    """The file itself, behind whatever links lead to it within its store."""
    root = Path(store.root).resolve()
    path = (root / key).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        what = "is a link that leaves its store" if path.exists() else "is gone"
        raise StoreCorruptError(what, where=str(root / key), next_step=RESTORE)
    return path


def _link_or_copy(source: Path, place: Path, digest: FileDigest) -> None:
    size_bytes = source.stat().st_size
    if size_bytes != digest.size_bytes:
        what = f"has {size_bytes:,} bytes, and {digest.size_bytes:,} were published"
        raise StoreCorruptError(what, where=str(source), next_step=RESTORE)
    try:
        os.link(source, place)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, place)
        digest.check(digest_file(place), where=str(source))
