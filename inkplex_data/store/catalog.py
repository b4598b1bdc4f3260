"""The tables that list what a snapshot holds: calls, recordings, prefixes, problems.

They come from the root index where that index is sound and covers the snapshot, otherwise from the shards' own tables:
the index is a copy for speed and for other tools, may lag behind, and may be replaced at any moment. So each of its
files is read once, whole, and compared with the digests that snapshots list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Final, Literal

import polars as pl

from inkplex_data.errors import StoreError
from inkplex_data.store.digests import FileDigest
from inkplex_data.store.documents import parse_value
from inkplex_data.store.files import Files
from inkplex_data.store.format import CALLS, PREFIXES, PROBLEMS, RECORDINGS, ShardKind, added_columns
from inkplex_data.store.parquet import Schema, TableReader
from inkplex_data.store.publish import ShardInfo
from inkplex_data.store.snapshot import ShardRef, Snapshot, is_listed, listed_shard

log = logging.getLogger(__name__)

IndexTable = Literal["calls", "recordings", "prefixes", "problems"]
KIND_OF: Final[dict[IndexTable, ShardKind]] = {
    "calls": "calls",
    "recordings": "recordings",
    "prefixes": "prefixes",
    "problems": "calls",
}
SCHEMA_OF: Final[dict[IndexTable, Schema]] = {
    "calls": CALLS,
    "recordings": RECORDINGS,
    "prefixes": PREFIXES,
    "problems": PROBLEMS,
}
COVERS: Final = "inkplex.shards"
"""Key of an index file's metadata: JSON of shard number → SHA-256 of its `shard.json`."""
REFUSED: Final = "inkplex.snapshot"
"""Key of the problems index: number of the snapshot whose refused calls it holds too."""
REINDEX: Final = "Run the build again; it rebuilds the index. Readers use the shards meanwhile."


def coverage(refs: Sequence[ShardRef]) -> dict[str, str]:
    """What an index made from `refs` says that it covers."""
    return {f"{ref.shard:06d}": ref.sha256 for ref in refs}


class Catalog:
    """The index tables of one snapshot."""

    def __init__(
        self,
        files: Files,
        snapshot: Snapshot,
        shard_of: Callable[[ShardRef], ShardInfo] | None = None,
        *,
        use_index: bool = True,
    ) -> None:
        """`shard_of` gives a listed shard's description, read anew by default."""
        self.files, self.snapshot = files, snapshot
        self._shard_of = shard_of or (lambda ref: listed_shard(files, ref))
        self._use_index = use_index
        self._schemas: dict[IndexTable, dict[str, pl.DataType]] = {}
        self._indexes: dict[IndexTable, TableReader | None] = {}

    def schema(self, table: IndexTable) -> dict[str, pl.DataType]:
        """All columns of a table: the format's, then those that builders added."""
        if table not in self._schemas:
            schema = dict(SCHEMA_OF[table])
            for reader in self._readers(table):
                for name, dtype in reader.schema.items():
                    # A column that is null throughout one shard is typed by another.
                    if schema.get(name, pl.Null()) == pl.Null():
                        schema[name] = dtype
                    elif name not in SCHEMA_OF[table] and schema[name] != dtype != pl.Null():
                        both = [pl.Series(name, [], schema[name]), pl.Series(name, [], dtype)]
                        merged = pl.concat([s.to_frame() for s in both], how="vertical_relaxed")
                        schema[name] = merged.schema[name]
            self._schemas[table] = schema
        return self._schemas[table]

    def chunks(self, table: IndexTable, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Rows of a table in the order of shards and calls, `columns` only, a shard at a time."""
        schema = self.schema(table)
        names = list(schema if columns is None else columns)
        shards = [ref.shard for ref in self.snapshot.of_kind(KIND_OF[table])]
        for reader in self._readers(table):
            stored = [name for name in names if name in reader.schema]
            whole = table == "problems"  # has no shard column, and is exact where an index is used
            needed = stored if whole or "shard" in stored else [*stored, "shard"]
            for part in reader.chunks(columns=needed):
                own = part if whole else part.filter(pl.col("shard").is_in(shards))
                if own.height:
                    absent = [pl.lit(None, schema[n]).alias(n) for n in names if n not in reader.schema]
                    yield own.with_columns(absent).select(pl.col(n).cast(schema[n]) for n in names)
        if table == "problems" and self._index("problems") is None and self.snapshot.refused:
            yield self.refusals().select(names)

    def close(self) -> None:
        """Forget the index files; a later read opens them again."""
        self._indexes.clear()

    def frame(self, table: IndexTable, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table in memory."""
        schema = self.schema(table)
        names = list(schema if columns is None else columns)
        empty = pl.DataFrame(schema={name: schema[name] for name in names})
        return pl.concat([empty, *self.chunks(table, names)])

    def refusals(self) -> pl.DataFrame:
        """Problem rows of calls that builds refused and that no shard of this snapshot holds."""
        table = pl.DataFrame([asdict(p) for p in self.snapshot.refused], schema=dict(PROBLEMS))
        if table.height:
            published = self.frame("calls", ["call_id"])["call_id"]
            table = table.filter(~pl.col("call_id").is_in(published.implode()))
        return table

    def indexed(self, table: IndexTable) -> bool:
        """Whether the root index holds this snapshot's rows of `table`."""
        return self._index(table) is not None

    def _readers(self, table: IndexTable) -> Iterator[TableReader]:
        index = self._index(table)
        if index is not None:
            yield index
            return
        for ref in self.snapshot.of_kind(KIND_OF[table]):
            yield shard_table(self.files, self._shard_of(ref), table)

    def _index(self, table: IndexTable) -> TableReader | None:
        """The root index, if it holds every shard of this snapshot as it was published."""
        if table not in self._indexes:
            self._indexes[table] = self._open_index(table) if self._use_index else None
        return self._indexes[table]

    def _open_index(self, table: IndexTable) -> TableReader | None:
        refs = self.snapshot.of_kind(KIND_OF[table])
        if not refs:
            return None
        try:
            reader = self._sound_index(f"{table}.parquet")
            covers = (
                None
                if reader is None
                else parse_value(reader.metadata.get(COVERS, "null"), where=reader.where)
            )
        except StoreError as error:
            log.warning("%s\nThe tables of the shards are read in its place.", error)
            return None
        wanted = coverage(refs)
        if reader is None or not isinstance(covers, dict):
            return None
        if table == "problems":
            exact = covers == wanted and reader.metadata.get(REFUSED) == str(self.snapshot.number)
            return reader if exact else None
        return reader if wanted.items() <= covers.items() else None

    def _sound_index(self, key: str) -> TableReader | None:
        """The index file with the digest that a snapshot lists, None where there is none and need be none.

        It may be that of another snapshot, whose build is just replacing it or was killed before it did.
        """
        data, listed = self.files.read(key), self.snapshot.files.get(key)
        where = self.files.describe(key)
        if data is None:
            if listed is not None:
                raise StoreError("this index is missing", where=where, next_step=REINDEX)
            return None
        if self.snapshot.files:
            found = FileDigest.of(data)
            if found != listed and not is_listed(self.files, key, found.sha256):
                raise StoreError("this index is not one that was published", where=where, next_step=REINDEX)
        return TableReader(self.files, key, data=data)


def shard_table(files: Files, info: ShardInfo, name: str) -> TableReader:
    """A table of a published shard, compared with the digest in `shard.json`; columns that are newer read as null."""
    key = f"{info.key}/{name}.parquet"
    digest = info.digest(f"{name}.parquet", where=files.describe(key))
    return TableReader(files, key, digest=digest, added=added_columns(name))


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
