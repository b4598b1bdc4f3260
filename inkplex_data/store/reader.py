"""Opening a store: `open_store(path or URL)`, its calls, and its tables as LazyFrames."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

import polars as pl

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.grid import WINDOW
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store import frame_streams, lazy
from inkplex_data.store.arrays.frame_arrays import FrameArrayReader
from inkplex_data.store.arrays.states_read import StatesReader
from inkplex_data.store.call import Call, ComposedCall, StoredPrefix
from inkplex_data.store.catalog import Catalog, family_splits, shard_table
from inkplex_data.store.describe import description_of, read_pieces, require_store
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.forks import check_fork
from inkplex_data.store.format import CLAIMS, EVIDENCE, WORDS, ShardKind
from inkplex_data.store.parquet import TableReader
from inkplex_data.store.publish import ShardInfo, shard_folder
from inkplex_data.store.snapshot import ShardRef, Snapshot, listed_shard, read_snapshot

__all__ = ["Call", "ComposedCall", "Store", "StoredPrefix", "open_store"]

T = TypeVar("T")
_OPEN_PARTS: Final = 512
"""Opened parts (table footers, array metadata) kept; a shard of calls has eleven."""
_OWNER_COLUMNS: Final = {
    "calls": (
        "call_id", "call_ix", "shard", "frame_offset", "frames", "word_offset", "words", "version_offset", "versions",
        "evidence_offset", "evidence", "claim_offset", "claims",
    ),
    "recordings": ("recording_id", "recording_ix", "shard", "token_offset", "tokens", "state_width"),
}  # fmt: skip
_SHOWN: Final = 8


def open_store(root: str | os.PathLike[str], snapshot: int | None = None) -> Store:
    """Open the store at a local path or fsspec URL, pinned to a snapshot (the newest by default).

    A store whose first build has not finished has no snapshot: its published shards are shown, and
    `Store.complete` is False. Needs no lock: what is published never changes.
    What is read of a shard is compared with the digests in its `shard.json`, which the snapshot lists.
    Raises StoreError if there is no store or no such snapshot, StoreCorruptError if a listed shard is gone or the
    snapshot is not the one that was published.
    """
    files = open_files(root)
    check_fork(files.root)
    require_store(files)
    pinned = read_snapshot(files, snapshot)
    return Store(files, description_of(files, pinned), pinned)


class Store:
    """A store at one snapshot. Safe to share between threads; pickles as its place and snapshot."""

    def __init__(self, files: Files, description: dict[str, Any], snapshot: Snapshot) -> None:
        self.files, self.description, self.snapshot = files, description, snapshot
        self._catalog = Catalog(files, snapshot, self._shard)
        self._listed = {(ref.kind, ref.shard): ref for ref in snapshot.shards}
        self._parts: dict[Hashable, Any] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()
        for ref in snapshot.shards:
            # Locally this is one look per shard; remote reads of a lost shard fail by themselves.
            path = files.path(f"{ref.key}/shard.json")
            if path is not None and not path.is_file():
                raise StoreCorruptError(
                    f"shard {ref.key} of snapshot {snapshot.number} is gone",
                    where=files.root,
                    next_step="Restore the shard from a copy, or run the same build again, which makes it anew.",
                )

    def __repr__(self) -> str:
        return f"Store({self.root!r}, snapshot={self.snapshot.number}, calls={len(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self.files.root, self.description, self.snapshot))

    @property
    def catalog(self) -> Catalog:
        """The tables that list what the snapshot holds."""
        self._check_process()
        return self._catalog

    @property
    def root(self) -> str:
        """Path or URL."""
        return self.files.root

    @property
    def complete(self) -> bool:
        """Whether a build has finished here; without that, what is shown may lack calls."""
        return self.snapshot.number > 0

    @property
    def window(self) -> int:
        """How many of the newest tokens, in order of arrival, the calls' memory holds."""
        window = self.setting("memory", "window")
        return window if isinstance(window, int) else WINDOW

    @property
    def is_single_stream(self) -> bool:
        """Whether everybody speaks in the agent's stream and there is no caller (recipe key `audio.streams`)."""
        return self.setting("audio", "streams") == "single"

    def setting(self, *keys: str) -> Any:
        """A value of the configuration that the store was built with, None where it has none."""
        value: Any = self.description.get("configuration")
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def __len__(self) -> int:
        return sum(ref.counts.get("calls", 0) for ref in self.snapshot.of_kind("calls"))

    @property
    def call_ids(self) -> list[str]:
        """All calls, in the order of shards and of calls within them."""
        return self.owners("calls")["call_id"].to_list()

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._positions["calls"]

    def call(self, call_id: str) -> Call:
        """One call. Raises UsageError if this snapshot has none of that id."""
        return Call(self, self.call_row(call_id))

    def calls(self) -> pl.LazyFrame:
        """`format.CALLS` and the builder's own columns, one row per call."""
        return lazy.scan_index(self, "calls")

    def recordings(self) -> pl.LazyFrame:
        """`format.RECORDINGS`."""
        return lazy.scan_index(self, "recordings")

    def prefixes(self) -> pl.LazyFrame:
        """`format.PREFIXES`."""
        return lazy.scan_index(self, "prefixes")

    def problems(self) -> pl.LazyFrame:
        """`format.PROBLEMS`: those of the stored calls, and those of calls refused and not stored since."""
        return lazy.scan_index(self, "problems")

    def splits(self) -> pl.LazyFrame:
        """`format.SPLIT_TABLE`: the split of each family that has calls here."""
        calls = self.catalog.frame("calls", ["family", "split"])
        return family_splits(calls, where=self.root).lazy()

    def pairs(self) -> pl.LazyFrame:
        """`memory.twins.PAIRS`: pairs of calls whose recordings are one until a fork, for counterfactuals."""
        from inkplex_data.memory.twins import counterfactual_pairs

        names = ["call_id", "recording_id", "recording_starts_at_us", "audio_sha256"]
        return counterfactual_pairs(self.catalog.frame("calls", names), self.branches()).lazy()

    def branch_pairs(self) -> pl.LazyFrame:
        """`memory.branches.BRANCH_PAIRS`: twins with their kind, and the branches that can be derived of each call."""
        from inkplex_data.memory.branches import branch_pairs

        names = ["call_id", "recording_id", "recording_starts_at_us"]
        return branch_pairs(
            self.pairs().collect(), self.catalog.frame("calls", names), self.evidence().collect()
        ).lazy()

    def branches(self) -> dict[str, tuple[str, int]]:
        """Recording → the recording that it branches from, and the session time of the fork in µs."""
        table = self.catalog.frame("recordings", ["recording_id", "branch_of", "branch_at_us"]).drop_nulls()
        return {recording: (source, at_us) for recording, source, at_us in table.iter_rows()}

    def words(self) -> pl.LazyFrame:
        """`call_id` and `format.WORDS`."""
        return lazy.scan_rows(self, "calls", "words", WORDS)

    def versions(self) -> pl.LazyFrame:
        """`call_id` and `memory.tables.VERSIONS`, on the frames of the call."""
        return lazy.scan_rows(self, "calls", "versions", VERSIONS)

    def evidence(self) -> pl.LazyFrame:
        """`call_id` and `format.EVIDENCE`: what the calls' sidecars give as evidence."""
        return lazy.scan_rows(self, "calls", "evidence", EVIDENCE)

    def claims(self) -> pl.LazyFrame:
        """`call_id` and `format.CLAIMS`: what the agents claim, in which words, and on which evidence."""
        return lazy.scan_rows(self, "calls", "claims", CLAIMS)

    def tokens(self) -> pl.LazyFrame:
        """`recording_id` and `memory.tables.TOKENS`."""
        return lazy.scan_rows(self, "recordings", "tokens", TOKENS)

    def frames(self) -> pl.LazyFrame:
        """`lazy.frame_schema()`: one row per frame. Only the columns, calls and chunks a query needs are read."""
        return lazy.scan_frames(self)

    def prefix(self, voice: str | None, role: str | None, *, split: str | None = None) -> StoredPrefix:
        """The prefix of a voice and role, that of `split` where several splits have one.

        Raises UsageError naming the stored pairs if there is none.
        """
        rows = self._prefixes.filter(pl.col("voice").eq_missing(voice), pl.col("role").eq_missing(role))
        own = rows.filter(pl.col("split").eq_missing(split))
        found = own if own.height else rows
        if not found.height:
            stored = self._prefixes.select("voice", "role").unique(maintain_order=True).rows()
            shown = "; ".join(f"voice {v!r:.60}, role {r!r:.60}" for v, r in stored[:_SHOWN])
            more = f"; and {len(stored) - _SHOWN} more" if len(stored) > _SHOWN else ""
            raise UsageError(
                f"no prefix with voice {voice!r:.60} and role {role!r:.60} is stored",
                where=self.root,
                next_step=f"Stored are: {shown}{more}." if stored else "This store has no prefixes.",
            )
        return self.prefix_by_id(found["prefix_id"][0])

    def prefix_by_id(self, prefix_id: str) -> StoredPrefix:
        """The prefix of one row of the prefixes table. Raises StoreCorruptError if it is not there."""
        return self._once(("prefix", prefix_id), lambda: self._read_prefix(prefix_id))

    def close(self) -> None:
        """Close the files that reads left open. The store may be used again."""
        with self._lock:
            for part in self._parts.values():
                if isinstance(part, StatesReader):
                    part.close()
            self._parts.clear()
            self._catalog.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What LazyFrames and calls read through.

    def owners(self, kind: Literal["calls", "recordings"]) -> pl.DataFrame:
        """Where the rows of each call or recording lie, in stored order."""
        return self._once(("owners", kind), lambda: self.catalog.frame(kind, _OWNER_COLUMNS[kind]))

    def table(self, kind: ShardKind, shard: int, name: str) -> TableReader:
        """One Parquet table of a shard."""
        return self._once(
            (kind, shard, name), lambda: shard_table(self.files, self._shard_at(kind, shard), name)
        )

    def array(self, kind: ShardKind, shard: int, name: str) -> FrameArrayReader:
        """One frame array of a shard."""
        key = f"{shard_folder(kind, shard)}/arrays.zarr/{name}"
        return self._once(
            key, lambda: FrameArrayReader(self.files, key, digests=self._shard_at(kind, shard).by_key)
        )

    def states(self, shard: int) -> StatesReader:
        """The states array of a recordings shard."""
        key = f"{shard_folder('recordings', shard)}/arrays.zarr/states"

        def opened() -> StatesReader:
            info = self._shard_at("recordings", shard)
            return StatesReader(
                key,
                files=self.files,
                metadata=info.digest("arrays.zarr/states/zarr.json", where=self.files.describe(key)),
                fingerprints=self._listed["recordings", shard].states,
            )

        return self._once(key, opened)

    def pieces(self) -> pl.Series | None:
        """The text tokenizer's pieces by id, None where the store keeps none."""
        table = self._once("pieces", lambda: read_pieces(self.files, self.snapshot))
        return None if table is None else table["piece"]

    def call_row(self, call_id: str) -> dict[str, Any]:
        """All columns of one call. Raises UsageError if there is none of that id."""
        row = self._owner("calls", call_id)
        table = self._whole(row["shard"], "calls")
        return table.filter(pl.col("call_id") == call_id).row(0, named=True)

    def recording_row(self, recording_id: str) -> dict[str, Any]:
        """Place and width of one recording. Raises UsageError if there is none of that id."""
        return self._owner("recordings", recording_id)

    def problems_of(self, call_id: str) -> pl.DataFrame:
        """The problems of one stored call."""
        shard = self._owner("calls", call_id)["shard"]
        return self._whole(shard, "problems").filter(pl.col("call_id") == call_id)

    def _whole(self, shard: int, name: Literal["calls", "problems"]) -> pl.DataFrame:
        """A table of a calls shard that is one row group for all its calls: read once, not for each of them."""
        return self._once(("whole", shard, name), lambda: self.table("calls", shard, name).read())

    @cached_property
    def _positions(self) -> dict[str, dict[str, int]]:
        ids = {kind: self.owners(kind).to_series(0) for kind in ("calls", "recordings")}  # type: ignore[arg-type]
        return {kind: dict(zip(series, range(len(series)), strict=True)) for kind, series in ids.items()}

    @cached_property
    def _prefixes(self) -> pl.DataFrame:
        return self.catalog.frame("prefixes")

    def _owner(self, kind: Literal["calls", "recordings"], own_id: str) -> dict[str, Any]:
        self._check_process()
        position = self._positions[kind].get(own_id)
        if position is None:
            known = list(self._positions[kind])
            shown = ", ".join(map(repr, known[:_SHOWN])) + (" …" if len(known) > _SHOWN else "")
            raise UsageError(
                f"no {kind.removesuffix('s')} {own_id!r} in snapshot {self.snapshot.number}",
                where=self.root,
                next_step=f"There are {len(known)}: {shown}." if known else "It holds none.",
            )
        return self.owners(kind).row(position, named=True)

    def _shard(self, ref: ShardRef) -> ShardInfo:
        """A listed shard's description, compared with the snapshot once."""
        return self._once(("shard", ref.kind, ref.shard), lambda: listed_shard(self.files, ref))

    def _shard_at(self, kind: ShardKind, shard: int) -> ShardInfo:
        if (kind, shard) not in self._listed:
            raise StoreCorruptError(
                f"a table names shard {shard_folder(kind, shard)}, which snapshot {self.snapshot.number} does not list",
                where=self.root,
                next_step="Run `inkplex-data verify` on the store, and build it again.",
            )
        return self._shard(self._listed[kind, shard])

    def _read_prefix(self, prefix_id: str) -> StoredPrefix:
        rows = self._prefixes.filter(pl.col("prefix_id") == prefix_id)
        if not rows.height:
            raise StoreCorruptError(
                f"prefix {prefix_id!r} is not in the store", where=self.root, next_step="Run the build again."
            )
        row = rows.row(0, named=True)
        first, stop = row["frame_offset"], row["frame_offset"] + row["frames"]
        return StoredPrefix(
            row,
            {
                stream.name: self.array("prefixes", row["shard"], stream.name).read(first, stop)
                for stream in frame_streams.stored_in("prefixes")
            },
        )

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """`make()`, kept; the oldest part goes when there are too many."""
        self._check_process()
        with self._lock:
            if key not in self._parts:
                part = make()  # which may keep parts of its own
                while len(self._parts) >= _OPEN_PARTS:
                    self._parts.pop(next(iter(self._parts)))
                self._parts[key] = part
            found: T = self._parts[key]
            return found

    def _check_process(self) -> None:
        """In a forked process begin anew: its parent's lock may be held, and its connections are the parent's."""
        check_fork(self.root)
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.RLock()
            self._parts = {}
            self.files = self._catalog.files = open_files(self.root)
            self._catalog.close()


def _reopen(root: str, description: dict[str, Any], snapshot: Snapshot) -> Store:
    return Store(open_files(root), description, snapshot)
