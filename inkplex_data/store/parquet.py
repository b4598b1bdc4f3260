"""Parquet tables of a shard: one row group per call, so that one call is one read; page checksums checked.

Bytes depend on the rows and the PyArrow version alone: no clock, no path, no thread order.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from inkplex_data.errors import StoreCorruptError, StoreError, UsageError
from inkplex_data.store.digests import FileDigest, digest_stored
from inkplex_data.store.files import RESTORE, Files
from inkplex_data.store.read_errors import local_access

Schema = Mapping[str, pl.DataType]
Compression = Literal["zstd", "lz4"]
_COMPAT = pl.CompatLevel.oldest()
_UNREADABLE: Final = (OSError, pa.ArrowException, ValueError, MemoryError, OverflowError)
"""What Arrow raises for files that are no Parquet, or whose pages are damaged."""
ROWS_ANYWAY: Final = 1 << 20
ROWS_PER_BYTE: Final = 256
"""A file may claim this many rows. Constant columns take next to nothing, but no table has only such."""


def fit(table: pl.DataFrame, schema: Schema, *, what: str) -> pl.DataFrame:
    """`table` with exactly the columns of `schema`, in its order and types.

    Raises UsageError for missing or unknown columns and for values that a type cannot hold.
    """
    missing, unknown = schema.keys() - set(table.columns), set(table.columns) - schema.keys()
    if missing or unknown:
        raise UsageError(
            f"the {what} table lacks the columns {sorted(missing)} and has unknown ones {sorted(unknown)}"
        )
    try:
        return table.select(list(schema)).cast(dict(schema))  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"the {what} table does not fit its types: {error}") from error


def row_table(row: Mapping[str, Any], schema: Schema) -> pl.DataFrame:
    """One row; columns that `schema` does not name get the type of their value.

    Raises UsageError naming the column whose value does not fit its type.
    """
    columns = []
    for name, value in row.items():
        try:
            columns.append(pl.Series(name, [value], dtype=schema.get(name)))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            raise UsageError(f"column {name!r} is {schema[name]}, so it cannot hold {value!r:.80}") from error
    return pl.DataFrame(columns)


class TableWriter:
    """Appends row groups to one Parquet file. Only the last row group and the footer are in memory."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        metadata: Mapping[str, str] | None = None,
        compression: Compression = "zstd",
    ) -> None:
        self.rows = 0
        self._schema = dict(schema)
        self._what = path.stem
        arrow = pl.DataFrame(schema=self._schema).to_arrow(compat_level=_COMPAT).schema
        if metadata:
            arrow = arrow.with_metadata(dict(metadata))
        self._arrow = arrow
        # Arrow takes a path with a colon for a URL, and opens no name that is not UTF-8; a file is neither.
        self._file = path.open("wb")
        self._writer = pq.ParquetWriter(
            self._file,
            arrow,
            compression=compression,
            compression_level=3 if compression == "zstd" else None,
            write_page_checksum=True,
            version="2.6",
        )

    def write(self, table: pl.DataFrame) -> None:
        """Append `table` as one row group; an empty one adds nothing. Raises UsageError as `fit` does."""
        if table.height:
            arrow = fit(table, self._schema, what=self._what).rechunk().to_arrow(compat_level=_COMPAT)
            self._writer.write_table(arrow.cast(self._arrow), row_group_size=table.height)
            self.rows += table.height

    def close(self) -> None:
        """Write the footer."""
        try:
            self._writer.close()
        finally:
            self._file.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def groups_of(ends: Sequence[int], offset: int, rows: int) -> tuple[list[int], int]:
    """Row groups that hold `rows` rows from `offset`, and how many rows of the first to skip.

    `ends` are the cumulative row counts of the file's groups.
    """
    if not rows:
        return [], 0
    first, last = bisect_right(ends, offset), bisect_right(ends, offset + rows - 1)
    return list(range(first, last + 1)), offset - (ends[first - 1] if first else 0)


class TableReader:
    """Reads row ranges and columns of one Parquet file, verifying page checksums. Safe between threads."""

    def __init__(
        self, files: Files, key: str, *, digest: FileDigest | None = None, data: bytes | None = None
    ) -> None:
        """`digest` is what the file was published with, compared before anything of it is believed; `data` are the
        file's bytes where they are in memory already.

        Raises StoreCorruptError if the file is missing, is another one or its footer cannot be read.
        """
        self.where = files.describe(key)
        self._files, self._key, self._data = files, key, data
        self._metadata: Any = None
        if digest is not None:
            try:
                digest.check(digest_stored(files, key), where=self.where)
            except FileNotFoundError as error:
                raise self._missing() from error
        with self._open() as file:
            self._metadata = file.metadata
            self.schema: dict[str, pl.DataType] = self._polars(file.schema_arrow)
        counts = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        self._check_claims(counts)
        self._ends = list(accumulate(counts))
        self.rows: int = self._ends[-1] if self._ends else 0

    @property
    def metadata(self) -> dict[str, str]:
        """The file's own key-value metadata."""
        raw = self._metadata.metadata or {}
        return {key.decode(): value.decode(errors="replace") for key, value in raw.items()}

    def read(
        self, offset: int = 0, rows: int | None = None, *, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """`rows` rows from `offset` (to the end by default), of `columns` (all by default).

        Raises StoreCorruptError for damaged pages, and for columns and ranges that the file does not have.
        """
        names = list(self.schema if columns is None else columns)
        try:
            table = pl.from_arrow(self.read_arrow(offset, rows, columns=names))
        except pl.exceptions.PanicException as error:
            raise self._corrupt("holds values that its types do not have") from error
        assert isinstance(table, pl.DataFrame)
        return table.select(names)

    def read_arrow(self, offset: int = 0, rows: int | None = None, *, columns: Sequence[str]) -> pa.Table:
        """The same as an Arrow table, whose columns stand in the file's order."""
        rows = self.rows - offset if rows is None else rows
        if offset < 0 or rows < 0 or offset + rows > self.rows:
            raise self._corrupt(f"has {self.rows:,} rows, not {offset:,} to {offset + rows:,}")
        if lacking := [name for name in columns if name not in self.schema]:
            raise self._corrupt(f"lacks the columns {', '.join(lacking)}")
        groups, skip = groups_of(self._ends, offset, rows)
        try:
            with self._open() as file:
                table = file.read_row_groups(groups, columns=list(columns), use_threads=False)
        except StoreError:
            raise
        except _UNREADABLE as error:
            raise self._corrupt(f"cannot be read: {error}") from error
        return table.slice(skip, rows)

    def chunks(self, *, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """All rows, one row group at a time."""
        start = 0
        for end in self._ends:
            yield self.read(start, end - start, columns=columns)
            start = end

    def _open(self) -> Any:
        try:
            return pq.ParquetFile(self._source(), metadata=self._metadata, page_checksum_verification=True)
        except FileNotFoundError as error:
            raise self._missing() from error
        except StoreError:
            raise
        except _UNREADABLE as error:
            raise self._corrupt(f"cannot be opened: {error}") from error

    def _source(self) -> Any:
        if self._data is not None:
            return pa.BufferReader(self._data)
        path = self._files.path(self._key)
        if path is None:
            return self._files.open(self._key)
        # Opening a pipe would wait for its writer; what was a file before is one.
        if self._metadata is None and self._files.size_bytes(self._key) is None:
            raise FileNotFoundError(self.where)
        with local_access(self.where):
            # A path given as text would be looked up among Arrow's file systems first, at each read.
            return pa.OSFile(os.fsencode(path))

    def _polars(self, schema: pa.Schema) -> dict[str, pl.DataType]:
        """Polars' types of the columns. Types that no table of a store has are not put to Polars, which may panic."""
        for column in schema:
            if not _is_plain(column.type):
                raise self._corrupt(f"its column {column.name!r:.80} has the type {column.type}")
        return dict(pl.from_arrow(schema.empty_table()).schema)  # type: ignore[union-attr]

    def _check_claims(self, counts: Sequence[int]) -> None:
        """Row counts come from the file, and set how much memory a read takes: they are bounded by its real size."""
        size = len(self._data) if self._data is not None else self._files.size_bytes(self._key) or 0
        claimed = sum(max(count, 0) for count in counts)
        if min(counts, default=0) < 0 or claimed > ROWS_ANYWAY + ROWS_PER_BYTE * size:
            raise self._corrupt(f"claims {claimed:,} rows, more than its {size:,} bytes can hold")

    def _missing(self) -> StoreCorruptError:
        return self._corrupt("the table is missing")

    def _corrupt(self, what: str) -> StoreCorruptError:
        return StoreCorruptError(" ".join(what.split()), where=self.where, next_step=RESTORE)


def _is_plain(type_: pa.DataType) -> bool:
    """Whether the tables of stores, and columns that builders add to them, may have this type."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_dictionary(type_):
        return _is_plain(type_.value_type)
    if pa.types.is_struct(type_):
        return all(_is_plain(part.type) for part in type_)
    return any(
        kind(type_)
        for kind in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_null,
        )
    )
