"""Checks of what lies in the root of a store: snapshots, `newest.json` and the files that the newest snapshot lists."""

from __future__ import annotations

from collections.abc import Iterator

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.faults import Fault
from inkplex_data.store.catalog import REINDEX
from inkplex_data.store.describe import PIECES_KEY, STORE_KEY
from inkplex_data.store.digests import FileDigest, digest_stored
from inkplex_data.store.files import Files
from inkplex_data.store.publish import ShardInfo, shard_folder
from inkplex_data.store.publish_snapshot import INDEX_KEYS
from inkplex_data.store.snapshot import (
    NEWEST_KEY,
    RESTORE_ROOT,
    Snapshot,
    is_listed,
    parse_snapshot,
    read_newest,
    snapshot_key,
    snapshot_numbers,
)
from inkplex_data.store.verify.shard_content import damage, store_fault

REBUILD = "Run the build again; it makes what is missing."
OLDER = "Restore the shard from a copy, or remove this snapshot; newer ones do without."


def check_snapshots(files: Files, published: list[ShardInfo]) -> Iterator[Fault]:
    """Every snapshot is the one that was published and lists shards that are there as they were; every shard is
    in one of them."""
    digests = {info.key: info.sha256 for info in published}
    listed: set[str] = set()
    found: dict[int, Snapshot] = {}
    numbers = snapshot_numbers(files)
    yield from _check_chain(files, numbers)
    for number in numbers:
        where = files.describe(snapshot_key(number))
        try:
            snapshot = parse_snapshot(files.read(snapshot_key(number)) or b"", number, where)
        except StoreError as error:
            yield store_fault("damaged", error.where or where, error.what, RESTORE_ROOT)
            continue
        found[number] = snapshot
        listed |= {ref.key for ref in snapshot.shards}
        for ref in snapshot.shards:
            if ref.key not in digests:
                step = REBUILD if number == numbers[-1] else OLDER
                yield store_fault("missing-shard", where, f"lists {ref.key}, which is not published", step)
            elif digests[ref.key] != ref.sha256:
                what = f"lists {ref.key} with a shard.json that differs from the one there"
                yield store_fault("changed-shard", where, what, "Restore the shard from a copy.")
    if not numbers:
        what = "has no snapshot: its first build has not finished"
        yield store_fault("no-snapshot", files.root, what, REBUILD)
        return
    for info in published:
        if len(found) == len(numbers) and info.key not in listed:
            yield store_fault(
                "unlisted-shard",
                files.describe(shard_folder(info.kind, info.shard)),
                "is published and in no snapshot: the build that wrote it has not finished",
                REBUILD,
            )
    if numbers[-1] in found:
        yield from _check_listed(files, found[numbers[-1]])


def _check_chain(files: Files, numbers: list[int]) -> Iterator[Fault]:
    """`newest.json` names the newest snapshot, and each one the snapshot before it."""
    try:
        newest = read_newest(files)
    except StoreCorruptError as error:
        yield damage(error)
        return
    except StoreError as error:
        yield store_fault("damaged", error.where or "", error.what, error.next_step or RESTORE_ROOT)
        return
    where = files.describe(NEWEST_KEY)
    wanted = {} if newest is None else {newest.number: (newest.sha256, NEWEST_KEY)}
    chained = False
    for number in numbers:
        try:
            snapshot = parse_snapshot(files.read(snapshot_key(number)) or b"", number, "")
        except StoreError:
            continue
        chained = chained or bool(snapshot.files)
        if snapshot.previous is not None:
            wanted.setdefault(number - 1, (snapshot.previous, snapshot_key(number)))
    for number, (sha256, named_by) in sorted(wanted.items()):
        data = files.read(snapshot_key(number))
        at = files.describe(snapshot_key(number))
        if data is None:
            yield store_fault("missing-snapshot", at, f"is gone; {named_by} names it", RESTORE_ROOT)
        elif FileDigest.of(data).sha256 != sha256:
            what = f"is not the snapshot that {named_by} names: one of them was changed"
            yield store_fault("changed-snapshot", at, what, RESTORE_ROOT)
    if newest is None and chained:
        what = "is missing: a build was stopped before it wrote it, or it was removed"
        yield store_fault("unfinished-snapshot", where, what, REBUILD)
    elif newest is not None and numbers and numbers[-1] > newest.number:
        what = f"does not name snapshot {numbers[-1]}: a build was stopped before it did"
        yield store_fault("unfinished-snapshot", where, what, REBUILD)


def _check_listed(files: Files, newest: Snapshot) -> Iterator[Fault]:
    """The files in the root are those of the newest snapshot."""
    for key, digest in newest.files.items():
        where = files.describe(key)
        step = REINDEX if key in INDEX_KEYS else RESTORE_ROOT
        if files.size_bytes(key) is None:
            code = "stale-index" if key in INDEX_KEYS else "missing-file"
            yield store_fault(code, where, "is missing", step)
            continue
        found = digest_stored(files, key)
        if found == digest:
            continue
        if key in INDEX_KEYS and is_listed(files, key, found.sha256):
            what = f"is that of another snapshot than {newest.number}"
            yield store_fault("stale-index", where, what, step)
        else:
            try:
                digest.check(found, where=where)
            except StoreCorruptError as error:
                code = "wrong-size" if found.size_bytes != digest.size_bytes else "wrong-digest"
                yield store_fault(code, where, error.what, step)
    for key in (STORE_KEY, PIECES_KEY):
        if newest.files and key not in newest.files and files.size_bytes(key) is not None:
            yield store_fault(
                "unlisted-file", files.describe(key), "no snapshot lists this file", "Run the build again."
            )
