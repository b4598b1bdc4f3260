"""The store as Polars LazyFrames: IO sources that read only the columns, calls and chunks a query needs.

A filter on `call_id` (or `recording_id`) is answered from the calls table, so `words`, `versions` and
`tokens` then read that call's row groups and `frames` that call's chunks, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from inkplex_data.clock import FRAME_US, US_PER_S
from inkplex_data.grid import EPAD, PAD
from inkplex_data.store import frame_streams
from inkplex_data.store.catalog import IndexTable
from inkplex_data.store.format import offset_column
from inkplex_data.store.frame_streams import Column, FrameStream
from inkplex_data.store.parquet import Schema
from inkplex_data.store.pushdown import decidable, needed_columns, row_batches

if TYPE_CHECKING:
    from inkplex_data.store.reader import Store

Batches = Iterator[pl.DataFrame]

ROWS_PER_BATCH: Final = 65_536
FRAMES_PER_BATCH: Final = 32_768

_GRID: Final[Schema] = {"call_id": pl.String(), "frame": pl.Int32(), "time_s": pl.Float64()}
"""Columns of `frames` that need no array."""


def frame_schema() -> dict[str, pl.DataType]:
    """Columns of `frames()`: call, frame and time, then those of `frame_streams.STREAMS`.

    `piece` is null where there is none: PAD, EPAD, no-input, and stores that keep no pieces.
    """
    made = {name: _column(column, stream.unknown(0)) for name, (stream, column) in _shown().items()}
    return {**_GRID, **{name: series.dtype for name, series in made.items()}}


def _shown() -> dict[str, tuple[FrameStream, Column]]:
    """The stream that each column of `frames` is made of."""
    return {column.name: (stream, column) for stream in frame_streams.STREAMS for column in stream.columns}


def scan_index(store: Store, table: IndexTable) -> pl.LazyFrame:
    """One of the index tables."""
    schema = store.catalog.schema(table)

    def read(columns: list[str], _: pl.Expr | None) -> Batches:
        # A table without columns cannot say how many rows it has, so one is always read.
        return store.catalog.chunks(table, columns or list(schema)[:1])

    return _source(schema, read)


def scan_rows(store: Store, kind: Literal["calls", "recordings"], table: str, stored: Schema) -> pl.LazyFrame:
    """A table of which calls or recordings have rows, `stored` with their id in front."""
    own_id, own_ix = ("call_id", "call_ix") if kind == "calls" else ("recording_id", "recording_ix")
    offset, count = offset_column(table), table
    schema = {own_id: pl.String(), **stored}

    def read(columns: list[str], predicate: pl.Expr | None) -> Batches:
        owners = _select(store.owners(kind), predicate, {own_id, own_ix}).filter(pl.col(count) > 0)
        shards, offsets, counts = (owners[name].to_list() for name in ("shard", offset, count))
        names = [name for name in columns if name != own_id]
        for first, last in row_batches(shards, offsets, counts, limit=ROWS_PER_BATCH):
            rows = sum(counts[first:last])
            part = pl.DataFrame()
            if names:
                part = store.table(kind, shards[first], table).read(offsets[first], rows, columns=names)
            if own_id in columns or not names:
                part = part.insert_column(0, _repeat(owners[own_id], counts, first, last))
            yield part

    return _source(schema, read)


def scan_frames(store: Store) -> pl.LazyFrame:
    """Every frame of every call: `frame_schema()`."""
    shown = _shown()

    def read(columns: list[str], predicate: pl.Expr | None) -> Batches:
        owners = _select(store.owners("calls"), predicate, {"call_id"}).filter(pl.col("frames") > 0)
        shards, offsets, counts = (owners[name].to_list() for name in ("shard", "frame_offset", "frames"))
        narrow = decidable(predicate, {"call_id", "frame", "time_s"})
        for first, last in row_batches(shards, offsets, counts, limit=FRAMES_PER_BATCH):
            grid = _grid(owners, counts, first, last)
            start, stop = 0, grid.height
            if narrow is not None:
                hits = grid.select(narrow.alias("hit"))["hit"].arg_true()
                if not len(hits):
                    continue
                start, stop = hits[0], hits[-1] + 1  # type: ignore[assignment]
            begin = offsets[first] + start
            parts = {
                name: store.array("calls", shards[first], name).read(begin, begin + stop - start)
                for name in dict.fromkeys(shown[c][0].name for c in columns if c in shown)
            }
            made = [_column(shown[c][1], parts[shown[c][0].name], store) for c in columns if c in shown]
            yield grid.slice(start, stop - start).with_columns(made).select(columns or "frame")

    return _source(frame_schema(), read)


def _source(schema: Schema, read: Callable[[list[str], pl.Expr | None], Batches]) -> pl.LazyFrame:
    """A LazyFrame over `read(columns, predicate)`, which may skip rows that the predicate rules out."""

    def batches(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Batches:
        columns = needed_columns(with_columns, predicate, schema)
        left = n_rows
        # A row limit counts rows before the predicate, so then none may be skipped.
        for part in read(columns, predicate if n_rows is None else None):
            table = part if left is None else part.head(left)
            left = None if left is None else left - table.height
            if predicate is not None:
                table = table.filter(predicate)
            yield table if with_columns is None else table.select(with_columns)
            if left == 0:
                return

    return register_io_source(batches, schema=dict(schema), is_pure=True)


def _select(owners: pl.DataFrame, predicate: pl.Expr | None, columns: set[str]) -> pl.DataFrame:
    inside = decidable(predicate, columns)
    return owners if inside is None else owners.filter(inside)


def _repeat(ids: pl.Series, counts: Sequence[int], first: int, last: int) -> pl.Series:
    """The owners' ids, one for each of their rows."""
    return ids.gather(np.repeat(np.arange(first, last), counts[first:last]))


def _grid(owners: pl.DataFrame, counts: Sequence[int], first: int, last: int) -> pl.DataFrame:
    """call_id, frame and time_s of consecutive calls."""
    frame = np.concatenate([np.arange(n, dtype=np.int32) for n in counts[first:last]])
    return pl.DataFrame(
        {
            "call_id": _repeat(owners["call_id"], counts, first, last),
            "frame": frame,
            "time_s": frame.astype(np.int64) * FRAME_US / US_PER_S,
        }
    )


def _column(column: Column, values: np.ndarray[Any, Any], store: Store | None = None) -> pl.Series:
    """A column from a stream's stored frames, [n] or [n, width]. `store` is whose pieces ids are spelled in."""
    if column.spelled:
        pieces = None if store is None else store.pieces()
        if pieces is None:
            return pl.Series(column.name, [None], pl.String()).new_from_index(0, len(values))
        ids = pl.Series(values)
        # Also ids that this tokenizer does not have: the frame is still worth showing.
        has_piece = ~ids.is_in([PAD, EPAD]) & (ids >= 0) & (ids < len(pieces))
        return pieces.gather(pl.select(pl.when(has_piece).then(ids)).to_series()).alias(column.name)
    if values.ndim == 1:
        return pl.Series(column.name, values)
    rows = np.ascontiguousarray(values[:, column.first : column.stop])
    # Of no frames, Polars could not tell the width.
    return pl.Series(column.name, rows, pl.Array(pl.Series(rows[:, 0]).dtype, rows.shape[1]))
