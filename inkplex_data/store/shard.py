"""Writers of the three kinds of shard. Each takes whole calls, recordings or prefixes in order and keeps
little in memory: the tables' index rows, one open chunk per array, and the part being added.

The same parts in the same order give the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl

from inkplex_data.errors import UsageError
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.problems import Problem
from inkplex_data.store import frame_streams
from inkplex_data.store.arrays.frame_arrays import FrameArraysWriter, write_group
from inkplex_data.store.arrays.states_write import StatesWriter
from inkplex_data.store.format import (
    CALLS,
    CLAIMS,
    EVIDENCE,
    PREFIXES,
    PROBLEMS,
    RECORDINGS,
    TABLES,
    WORDS,
    ShardKind,
    offset_column,
    with_added,
)
from inkplex_data.store.parquet import Compression, Schema, TableWriter, fit, row_table
from inkplex_data.store.publish import ShardInfo, StagedShard

CALLS_PER_SHARD_MAX = 1 << 20
"""Default `call_ix` is shard × this + position, so it is unique and needs no other shard."""
RECORDINGS_PER_SHARD_MAX = 1 << 14
"""The same for `recording_ix`, which is an int32."""

LOADED_TABLES = frozenset({"versions", "tokens"})
"""Tables that every training step reads: LZ4 takes half of zstd's time there, and their bytes are a thousandth
of the states'."""


def empty(schema: Schema) -> pl.DataFrame:
    """A table of `schema` without rows."""
    return pl.DataFrame(schema=dict(schema))


@dataclass
class CallPart:
    """One call as a shard takes it.

    `row`: the columns of `format.CALLS` that the builder knows, and any more of its own; `call_id`,
    `split` and `family` are required; `shard`, offsets and counts are filled in here, and `call_ix`
    where it is absent. `streams` has every stream of `frame_streams.STREAMS`, [F] or [F, width]; optional ones may
    be left out. `words`, `versions`, `evidence` and `claims` follow `format.WORDS`, `memory.tables.VERSIONS`,
    `format.EVIDENCE` and `format.CLAIMS`; their `call_ix` is filled in.
    """

    row: dict[str, Any]
    streams: Mapping[str, np.ndarray]
    words: pl.DataFrame = field(default_factory=lambda: empty(WORDS))
    versions: pl.DataFrame = field(default_factory=lambda: empty(VERSIONS))
    problems: Sequence[Problem] = ()
    evidence: pl.DataFrame = field(default_factory=lambda: empty(EVIDENCE))
    claims: pl.DataFrame = field(default_factory=lambda: empty(CLAIMS))

    @property
    def frames(self) -> int:
        """F, of the first stream."""
        return len(next(iter(self.streams.values()), ()))


class _ShardWriter:
    """Staging, publishing and cleaning up, shared by the writers."""

    kind: ShardKind

    def __init__(self, root: str | os.PathLike[str], shard: int, *, replaces: str | None = None) -> None:
        """`replaces`: as `StagedShard` has it. Raises StoreError if the shard is published already."""
        self.shard = shard
        self._staged = StagedShard(root, self.kind, shard, replaces=replaces)
        self._folder = self._staged.folder
        self._rows: list[pl.DataFrame] = []

    def publish(self) -> ShardInfo:
        """Finish the files, make them durable and publish the shard. Raises StoreError, OSError."""
        try:
            return self._staged.publish(self._finish())
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Give up and remove what was written."""
        self._staged.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Publishing is always asked for by name; leaving early never publishes.
        self.abort()

    def _finish(self) -> dict[str, int]:
        raise NotImplementedError

    def _table(self, name: str, schema: Schema) -> TableWriter:
        compression: Compression = "lz4" if name in LOADED_TABLES else "zstd"
        return TableWriter(self._folder / f"{name}.parquet", schema, compression=compression)

    def _write_rows(self, name: str, schema: Schema) -> None:
        # Relaxed: a column of the builder's own may be null, or an integer, in some rows only.
        table = pl.concat([empty(schema), *self._rows], how="diagonal_relaxed")
        with self._table(name, table.schema) as writer:
            writer.write(table)


class CallShardWriter(_ShardWriter):
    """Writes `calls/NNNNNN`. `add` each call in order, then `publish`."""

    kind: ShardKind = "calls"

    def __init__(
        self,
        root: str | os.PathLike[str],
        shard: int,
        *,
        extra_columns: Schema | None = None,
        replaces: str | None = None,
    ) -> None:
        """`extra_columns` types the builder's own columns of the calls table, which are inferred otherwise.

        Raises StoreError if the shard is published already.
        """
        super().__init__(root, shard, replaces=replaces)
        self._schema = {**CALLS, **(extra_columns or {})}
        self._arrays = FrameArraysWriter(self._folder / "arrays.zarr", frame_streams.array_layout("calls"))
        self._parts = {
            "words": self._table("words", WORDS),
            "versions": self._table("versions", VERSIONS),
            "evidence": self._table("evidence", EVIDENCE),
            "claims": self._table("claims", CLAIMS),
        }
        self._problems: list[Problem] = []
        self._ids: set[str] = set()

    @property
    def calls(self) -> int:
        return len(self._rows)

    def add(self, part: CallPart) -> None:
        """Append one call. Raises UsageError if its parts do not fit each other or the format."""
        call_id: str = part.row.get("call_id") or ""
        absent = [name for name in ("call_id", "split", "family") if not part.row.get(name)]
        if absent:
            raise UsageError(f"a call cannot be stored without {', '.join(absent)}", where=call_id or None)
        if call_id in self._ids:
            raise UsageError(f"call {call_id!r} is in this shard already")
        frames = part.frames
        if part.row.get("frames", frames) != frames:
            raise UsageError(f"call {call_id!r} has {frames} frames, not {part.row['frames']}")
        row = {name: part.row.get(name) for name in self._schema} | part.row
        if row["call_ix"] is None:
            row["call_ix"] = self.shard * CALLS_PER_SHARD_MAX + len(self._rows)
        row |= {
            "shard": self.shard,
            "frame_offset": self._arrays.frames,
            "frames": frames,
        }
        tables = {
            "words": part.words,
            "versions": part.versions,
            "evidence": part.evidence,
            "claims": part.claims,
        }
        for name, table in tables.items():
            row |= {offset_column(name): self._parts[name].rows, name: table.height}
        # Everything is checked before anything is written, so that a call refused here leaves no trace.
        index_row = row_table(row, self._schema)
        call_ix = pl.lit(index_row["call_ix"].item(), pl.Int64).alias("call_ix")
        fitted = {
            name: fit(with_added(table.with_columns(call_ix), name), TABLES["calls"][name], what=name)
            for name, table in tables.items()
        }
        unknown = {s.name: s.unknown(frames) for s in frame_streams.STREAMS if s.optional}
        self._arrays.append(**{**unknown, **part.streams})
        for name, table in fitted.items():
            self._parts[name].write(table)
        self._problems.extend(part.problems)
        self._rows.append(index_row)
        self._ids.add(call_id)

    def _finish(self) -> dict[str, int]:
        self._arrays.close()
        for table in self._parts.values():
            table.close()
        self._write_rows("calls", self._schema)
        with self._table("problems", PROBLEMS) as writer:
            writer.write(problem_table(self._problems))
        return {
            "calls": len(self._rows),
            "frames": self._arrays.frames,
            **{name: table.rows for name, table in self._parts.items()},
            "problems": len(self._problems),
        }


class RecordingShardWriter(_ShardWriter):
    """Writes `recordings/NNNNNN`. Per recording: `begin`, `append_states` as often as needed, `end`.

    All recordings of one shard have states of one width, or none has states.
    """

    kind: ShardKind = "recordings"

    def __init__(self, root: str | os.PathLike[str], shard: int, *, replaces: str | None = None) -> None:
        """Raises StoreError if the shard is published already."""
        super().__init__(root, shard, replaces=replaces)
        self._tokens = self._table("tokens", TOKENS)
        self._states: StatesWriter | None = None
        self._width: int | None = None
        self._open: dict[str, Any] | None = None
        self._ids: set[str] = set()

    @property
    def recordings(self) -> int:
        return len(self._rows)

    def begin(self, row: Mapping[str, Any]) -> None:
        """Start a recording. `row` has the columns of `format.RECORDINGS` that the builder knows;
        `state_width` is 0 for a recording without states. Raises UsageError."""
        recording_id = row.get("recording_id", "")
        if self._open is not None:
            raise UsageError(f"recording {self._open['recording_id']!r} has not ended")
        if not recording_id or recording_id in self._ids:
            raise UsageError(f"recording id {recording_id!r} is empty or in this shard already")
        width = int(row.get("state_width") or 0)
        if self._width is None:
            self._width = width
            if width:
                self._states = StatesWriter(self._folder / "arrays.zarr" / "states", width)
        if width != self._width:
            raise UsageError(
                f"recording {recording_id!r} has states of width {width}; this shard's have {self._width}",
                next_step="Put recordings of another width, or without states, into another shard.",
            )
        full = {name: row.get(name) for name in RECORDINGS} | dict(row)
        if full["recording_ix"] is None:
            full["recording_ix"] = self.shard * RECORDINGS_PER_SHARD_MAX + len(self._rows)
        full |= {"shard": self.shard, "token_offset": self._tokens.rows, "state_width": width}
        full["states"] = full["states"] or ("captured" if width else "none")
        self._open = full

    def append_states(self, states: Any) -> None:
        """Append state rows [n, 3, D] of the open recording, bfloat16 bits, in layout order."""
        if self._open is None or self._states is None:
            raise UsageError("states were given to a recording that is not open or declares none")
        self._states.append(states)

    def end(self, tokens: pl.DataFrame) -> None:
        """Finish the recording with its tokens (`memory.tables.TOKENS`, in layout order, one per state row)."""
        if self._open is None:
            raise UsageError("no recording is open")
        if self._states is not None and self._states.rows_written != self._tokens.rows + tokens.height:
            got = self._states.rows_written - self._tokens.rows
            raise UsageError(
                f"recording {self._open['recording_id']!r} has {tokens.height} tokens and {got} rows of states"
            )
        index_row = row_table(self._open | {"tokens": tokens.height}, RECORDINGS)
        recording_ix = pl.lit(index_row["recording_ix"].item(), pl.Int32).alias("recording_ix")
        self._tokens.write(with_added(tokens.with_columns(recording_ix), "tokens"))
        self._rows.append(index_row)
        self._ids.add(self._open["recording_id"])
        self._open = None

    def abort(self) -> None:
        if self._states is not None:
            self._states.abort()
        super().abort()

    def _finish(self) -> dict[str, int]:
        if self._open is not None:
            raise UsageError(f"recording {self._open['recording_id']!r} has not ended")
        self._tokens.close()
        if self._states is not None:
            self._states.close()
        write_group(self._folder / "arrays.zarr")
        self._write_rows("recordings", RECORDINGS)
        return {
            "recordings": len(self._rows),
            "tokens": self._tokens.rows,
            "state_rows": 0 if self._states is None else self._states.rows_written,
            "state_width": self._width or 0,
        }


class PrefixShardWriter(_ShardWriter):
    """Writes `prefixes/NNNNNN`: one prefix per voice, role and split."""

    kind: ShardKind = "prefixes"

    def __init__(self, root: str | os.PathLike[str], shard: int, *, replaces: str | None = None) -> None:
        """Raises StoreError if the shard is published already."""
        super().__init__(root, shard, replaces=replaces)
        self._arrays = FrameArraysWriter(self._folder / "arrays.zarr", frame_streams.array_layout("prefixes"))
        self._ids: set[str] = set()

    def add(self, row: Mapping[str, Any], streams: Mapping[str, np.ndarray]) -> None:
        """Append one prefix of P frames: the streams that prefixes have, [P] or [P, width]. Raises UsageError."""
        prefix_id = row.get("prefix_id", "")
        if not prefix_id or prefix_id in self._ids:
            raise UsageError(f"prefix id {prefix_id!r} is empty or in this shard already")
        full = {name: row.get(name) for name in PREFIXES} | dict(row)
        full |= {
            "shard": self.shard,
            "frame_offset": self._arrays.frames,
            "frames": len(next(iter(streams.values()), ())),
        }
        index_row = row_table(full, PREFIXES)
        self._arrays.append(**streams)
        self._rows.append(index_row)
        self._ids.add(prefix_id)

    def _finish(self) -> dict[str, int]:
        self._arrays.close()
        self._write_rows("prefixes", PREFIXES)
        return {"prefixes": len(self._rows), "frames": self._arrays.frames}


def problem_table(problems: Sequence[Problem]) -> pl.DataFrame:
    """Problems as rows of `format.PROBLEMS`."""
    return pl.DataFrame([asdict(problem) for problem in problems], schema=dict(PROBLEMS))
