"""The tables that list what a snapshot holds: calls, recordings, prefixes, problems.

They come from the root index where that index covers the snapshot, otherwise from the shards' own tables:
the index is a copy for speed and for other tools, and may lag behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final, Literal

import polars as pl

from inkplex_data.store.files import Files
from inkplex_data.store.format import CALLS, PREFIXES, PROBLEMS, RECORDINGS, ShardKind
from inkplex_data.store.parquet import Schema, TableReader
from inkplex_data.store.publish import shard_folder
from inkplex_data.store.snapshot import ShardRef, Snapshot

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


def coverage(refs: Sequence[ShardRef]) -> dict[str, str]:
    """What an index made from `refs` says that it covers."""
    return {f"{ref.shard:06d}": ref.sha256 for ref in refs}


class Catalog:
    """The index tables of one snapshot."""

    def __init__(self, files: Files, snapshot: Snapshot) -> None:
        self.files, self.snapshot = files, snapshot
        self._schemas: dict[IndexTable, dict[str, pl.DataType]] = {}

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
            yield TableReader(self.files, f"{shard_folder(ref.kind, ref.shard)}/{table}.parquet")

    def _index(self, table: IndexTable) -> TableReader | None:
        """The root index, if it holds every shard of this snapshot as it was published."""
        key = f"{table}.parquet"
        refs = self.snapshot.of_kind(KIND_OF[table])
        if not refs or self.files.size_bytes(key) is None:
            return None
        reader = TableReader(self.files, key)
        try:
            covers = json.loads(reader.metadata.get(COVERS, "null"))
        except ValueError:
            return None
        wanted = coverage(refs)
        if table == "problems":
            exact = covers == wanted and reader.metadata.get(REFUSED) == str(self.snapshot.number)
            return reader if exact else None
        return reader if isinstance(covers, dict) and wanted.items() <= covers.items() else None
