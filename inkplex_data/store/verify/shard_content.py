"""Checks of one published shard: every file's size and SHA-256, every chunk's and page's checksum, and
whether tables, arrays and counts agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

import polars as pl

from inkplex_data.errors import StoreError
from inkplex_data.faults import Fault
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store import frame_streams
from inkplex_data.store.arrays.frame_arrays import FrameArrayReader
from inkplex_data.store.arrays.states_read import StatesReader
from inkplex_data.store.digests import digest_stored
from inkplex_data.store.files import RESTORE, Files
from inkplex_data.store.format import (
    CALLS,
    FRAME_CHUNK,
    LATER_COLUMNS,
    PREFIXES,
    PROBLEMS,
    RECORDINGS,
    WORDS,
    ShardKind,
)
from inkplex_data.store.parquet import Schema, TableReader
from inkplex_data.store.publish import ShardInfo

Advance = Callable[[str, int], None]
"""Called with a file's key and the bytes just read."""

TABLES: Final[dict[ShardKind, dict[str, Schema]]] = {
    "calls": {"calls": CALLS, "words": WORDS, "versions": VERSIONS, "problems": PROBLEMS},
    "recordings": {"recordings": RECORDINGS, "tokens": TOKENS},
    "prefixes": {"prefixes": PREFIXES},
}


def store_fault(code: str, where: str, what: str, next_step: str) -> Fault:
    """One thing that is wrong with a store: a stable code, the place, a sentence, and what to do."""
    return Fault(what, where=where, code=code, next_step=next_step)


def damage(error: StoreError, *, code: str = "damaged") -> Fault:
    """The fault that an error of the readers reports."""
    return store_fault(code, error.where or "", error.what, error.next_step or RESTORE)


def check_files(files: Files, info: ShardInfo, advance: Advance) -> Iterator[Fault]:
    """Every file that `shard.json` lists is there with its size and SHA-256, and no other is."""
    for name in sorted(set(files.tree(info.key)) - {"shard.json"} - info.files.keys()):
        yield store_fault(
            "unlisted-file",
            files.describe(f"{info.key}/{name}"),
            "this file is not listed in shard.json",
            "Remove it; nothing reads it.",
        )
    for name, digest in info.files.items():
        key = f"{info.key}/{name}"
        where = files.describe(key)
        size = files.size_bytes(key)
        if size is None:
            yield store_fault("missing-file", where, "this file of the shard is missing", RESTORE)
            continue
        if size != digest.size_bytes:
            what = f"has {size:,} bytes, and {digest.size_bytes:,} were published"
            yield store_fault("wrong-size", where, what, RESTORE)
        elif digest_stored(files, key, lambda read_bytes, key=key: advance(key, read_bytes)) != digest:  # type: ignore[misc]
            yield store_fault("wrong-digest", where, "its bytes changed after they were published", RESTORE)


def check_content(files: Files, info: ShardInfo, broken: Collection[str]) -> Iterator[Fault]:
    """Chunk and page checksums, and lengths of tables and arrays against `shard.json` and each other.

    Tables that are `broken`, by their place, are not looked into: their digest has said what there is to say.
    """
    sound: set[str] = set()
    for name, schema in TABLES[info.kind].items():
        key = f"{info.key}/{name}.parquet"
        if files.describe(key) in broken:
            continue
        try:
            reader = TableReader(files, key)
            for _ in reader.chunks():
                pass
        except StoreError as error:
            yield damage(error)
            continue
        if reader.rows != info.counts.get(name):
            yield _mismatch(reader.where, f"has {reader.rows:,} rows", info, name)
        wrong = [
            column
            for column, dtype in schema.items()
            if reader.schema.get(column, dtype if column in LATER_COLUMNS else None) != dtype
        ]
        if wrong:
            what = f"its columns {', '.join(wrong)} are missing or of another type"
            yield store_fault("wrong-columns", reader.where, what, RESTORE)
        else:
            sound.add(name)
    yield from _check_arrays(files, info)
    if info.kind in sound:
        index = TableReader(files, f"{info.key}/{info.kind}.parquet").read()
        yield from _check_offsets(files, info, index)
        if "versions" in sound:
            yield from _check_versions(files, info, index)


def _check_arrays(files: Files, info: ShardInfo) -> Iterator[Fault]:
    if info.kind == "recordings":
        if info.counts.get("state_width"):
            try:
                expected = (info.counts.get("state_rows"), info.counts["state_width"])
                with StatesReader(f"{info.key}/arrays.zarr/states", files=files) as states:
                    if (len(states), states.shape[2]) != expected:
                        yield _mismatch(states.where, f"has shape {states.shape}", info, "state_rows")
                    yield from (damage(error) for error in states.check())
            except StoreError as error:
                yield damage(error)
        return
    for name in frame_streams.array_layout(info.kind):
        try:
            array = FrameArrayReader(files, f"{info.key}/arrays.zarr/{name}")
        except StoreError as error:
            yield damage(error)
            continue
        if len(array) != info.counts.get("frames"):
            where = files.describe(f"{info.key}/arrays.zarr/{name}")
            yield _mismatch(where, f"has {len(array):,} frames", info, "frames")
        for chunk in range(min(-(-len(array) // FRAME_CHUNK), len(info.files))):
            try:
                array.chunk(chunk)
            except StoreError as error:
                yield damage(error)


def _check_offsets(files: Files, info: ShardInfo, table: pl.DataFrame) -> Iterator[Fault]:
    """Rows of calls, recordings or prefixes follow each other without a gap and fill what they point into."""
    pointers = {
        "calls": [("frame_offset", "frames"), ("word_offset", "words"), ("version_offset", "versions")],
        "recordings": [("token_offset", "tokens")],
        "prefixes": [("frame_offset", "frames")],
    }[info.kind]
    where = files.describe(f"{info.key}/{info.kind}.parquet")
    for offset, count in pointers:
        ends = table[count].cast(pl.Int64).cum_sum()
        if not (table[offset] == ends - table[count]).all() or (ends.last() or 0) != info.counts.get(count):
            yield store_fault(
                "wrong-offsets",
                where,
                f"{offset} and {count} of its rows do not cover the {info.counts.get(count)} {count} of the shard",
                RESTORE,
            )
    if not (table["shard"] == info.shard).all():
        yield store_fault("wrong-offsets", where, "its rows belong to another shard", RESTORE)


def _check_versions(files: Files, info: ShardInfo, calls: pl.DataFrame) -> Iterator[Fault]:
    """Versions lie on their call's frames."""
    frames = calls.select("call_ix", "call_id", "frames")
    reader = TableReader(files, f"{info.key}/versions.parquet")
    for part in reader.chunks(columns=["call_ix", "start", "end"]):
        joined = part.join(frames, on="call_ix", how="left")
        start, end = pl.col("start"), pl.col("end")
        inside = (start >= 0) & (start < end) & (end <= pl.col("frames"))
        outside = joined.filter(~inside.fill_null(False))
        if outside.height:
            first = outside.row(0, named=True)
            yield store_fault(
                "wrong-versions",
                reader.where,
                f"{outside.height:,} versions are outside their call's frames, the first "
                f"[{first['start']}, {first['end']}) of call {first['call_id']!r}",
                "Build the shard again.",
            )


def _mismatch(where: str, found: str, info: ShardInfo, count: str) -> Fault:
    return store_fault(
        "wrong-count", where, f"{found}, and shard.json says {info.counts.get(count)} {count}", RESTORE
    )
