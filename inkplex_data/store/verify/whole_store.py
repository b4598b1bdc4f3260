"""`verify_store`: every digest and checksum of a store, and whether its parts belong together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import polars as pl

from inkplex_data.errors import StoreError
from inkplex_data.faults import Fault
from inkplex_data.store.catalog import KIND_OF, REINDEX, Catalog
from inkplex_data.store.describe import read_description, read_pieces, require_store
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.format import SHARD_KINDS
from inkplex_data.store.publish import ShardInfo, read_shard, shard_numbers
from inkplex_data.store.snapshot import NEWEST_KEY, Snapshot, read_snapshot
from inkplex_data.store.verify.root_files import REBUILD, check_snapshots
from inkplex_data.store.verify.shard_content import check_content, check_files, damage, store_fault

Progress = Callable[[str, int, int], None]
"""Called with the file being read, and the bytes done and to do in all."""


def verify_store(root: str | os.PathLike[str], *, progress: Progress | None = None) -> list[Fault]:
    """All faults of a store, an empty list if there is none.

    Reads every byte of every published shard: sizes, SHA-256, chunk and page checksums, counts and
    offsets; then snapshots against shards, calls against recordings, prefixes, families and audio, and
    the root index. Folders without `shard.json` are not part of the store, and are reported.
    Raises StoreError only where there is no store.
    """
    files = open_files(root)
    require_store(files)
    if not files.names(""):
        raise StoreError(
            "this place lists no folders, so what is there cannot be verified",
            where=files.root,
            next_step="Verify the store where it lies, or a copy of it.",
        )
    faults: list[Fault] = []
    if files.size_bytes(NEWEST_KEY) is None:  # else the newest snapshot has its digest
        try:
            read_description(files)
        except StoreError as error:
            faults.append(damage(error))
    faults += _check_folders(files)
    published: list[ShardInfo] = []
    for kind in SHARD_KINDS:
        for shard in shard_numbers(files, kind):
            try:
                info = read_shard(files, kind, shard)
            except StoreError as error:
                faults.append(damage(error))
            else:
                published += [] if info is None else [info]
    total = sum(info.size_bytes for info in published)
    done = 0

    def advance(key: str, read_bytes: int) -> None:
        nonlocal done
        done += read_bytes
        if progress is not None:
            progress(key, done, total)

    for info in published:
        differing = list(check_files(files, info, advance))
        faults += differing
        faults += check_content(files, info, {fault.where for fault in differing})
    faults += check_snapshots(files, published)
    try:
        newest = read_snapshot(files)
        faults += _check_relations(files, newest)
        read_pieces(files, newest)
    except StoreError as error:
        if not faults:  # else this is what is found already, met again
            faults.append(damage(error))
    # A damaged file is met by several checks; each sentence is said once.
    return list(dict.fromkeys(faults))


def _check_folders(files: Files) -> Iterator[Fault]:
    """Folders that are not shards: left by a build that stopped, or by somebody else."""
    for folder in ("", "snapshots"):
        for name in files.names(folder):
            if name.startswith(".tmp-"):
                yield _leftover(files.describe(f"{folder}/{name}" if folder else name))
    for kind in SHARD_KINDS:
        numbers = {f"{shard:06d}" for shard in shard_numbers(files, kind)}
        for name in files.names(kind):
            where = files.describe(f"{kind}/{name}")
            if name in numbers:
                if files.size_bytes(f"{kind}/{name}/shard.json") is None:
                    what = "has no shard.json, so it was never published and is not part of the store"
                    yield store_fault("not-published", where, what, f"{REBUILD} Or remove the folder.")
            elif name.startswith(".tmp-"):
                yield _leftover(where)
            else:
                yield store_fault("unknown-name", where, "is not part of a store", "Move it elsewhere.")


def _leftover(where: str) -> Fault:
    what = "is what a build that stopped here was writing"
    return store_fault("leftover", where, what, f"{REBUILD} Or remove it.")


def _check_relations(files: Files, snapshot: Snapshot) -> Iterator[Fault]:
    """What calls name exists; ids are unique; a family has one split and an audio one family."""
    catalog = Catalog(files, snapshot, use_index=not snapshot.files)
    names = ["call_id", "family", "split", "audio_sha256", "recording_id", "prefix_id", "wrong_memory_of"]
    calls = catalog.frame("calls", names)
    recordings = catalog.frame("recordings", ["recording_id"])["recording_id"]
    prefixes = catalog.frame("prefixes", ["prefix_id"])["prefix_id"]

    def fault(code: str, what: str) -> Fault:
        return store_fault(code, files.root, what, "Build the calls concerned again.")

    for name, ids in (("call", calls["call_id"]), ("recording", recordings), ("prefix", prefixes)):
        for twice in ids.filter(ids.is_duplicated()).unique().sort():
            yield fault("duplicate-id", f"{name} {twice!r} is stored more than once")
    for column, known in (
        ("recording_id", recordings),
        ("prefix_id", prefixes),
        ("wrong_memory_of", calls["call_id"]),
    ):
        lost = calls.filter(pl.col(column).is_not_null() & ~pl.col(column).is_in(known.implode()))
        for call_id, target in lost.select("call_id", column).iter_rows():
            yield fault("missing-target", f"call {call_id!r} names {column} {target!r}, which is not stored")
    for group, member, several in (("family", "split", "splits"), ("audio_sha256", "family", "families")):
        held = calls.drop_nulls(group).group_by(group).agg(pl.col(member).unique().sort())
        for key, found in held.filter(pl.col(member).list.len() > 1).sort(group).iter_rows():
            yield fault(
                f"{member}-conflict", f"{group} {key!r} is in the {several} {', '.join(map(str, found))}"
            )
    if snapshot.number and not snapshot.files:  # its digests say more
        for table in KIND_OF:
            if snapshot.of_kind(KIND_OF[table]) and not catalog.indexed(table):
                yield store_fault(
                    "stale-index",
                    files.describe(f"{table}.parquet"),
                    f"does not match snapshot {snapshot.number}",
                    REINDEX,
                )
