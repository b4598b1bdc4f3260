"""Snapshots: `snapshots/NNNNNN.json` lists the shards that belong together, the calls refused, and under no call's id
what was noted of the corpus as a whole, and the root files.

A reader pins one, so a build that adds shards while it reads changes nothing for it. `newest.json` names the newest
with its SHA-256, and each snapshot that of the one before: one that is changed or gone is noticed, and places that
list no folders can be read. `publish_snapshot.py` writes both.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.problems import Problem
from inkplex_data.store.digests import FileDigest, take_digests
from inkplex_data.store.documents import check_format, dump_json, parse_json, read_document, take
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.format import FORMAT, PROBLEMS, SHARD_KINDS, ShardKind
from inkplex_data.store.publish import ShardInfo, published_shards, read_shard, shard_folder

log = logging.getLogger(__name__)

NEWEST_KEY: Final = "newest.json"
RESTORE_ROOT: Final = "Restore the file from a copy of the store; the calls themselves are in its shards."
REFUSED: Final = tuple(name for name, dtype in PROBLEMS.items() if dtype == pl.String())
"""What is told of a refused call: it was refused as a whole, so at no place of its own."""
_NAME = re.compile(r"(\d{6,})\.json")


@dataclass(frozen=True)
class ShardRef:
    """One shard as a snapshot lists it."""

    kind: ShardKind
    shard: int
    sha256: str
    counts: Mapping[str, int]
    states: tuple[str, ...] = ()
    """`StatesReader.fingerprint` of each file of its states; of older snapshots, nothing."""

    @property
    def key(self) -> str:
        return shard_folder(self.kind, self.shard)

    @classmethod
    def of(cls, info: ShardInfo, states: Sequence[str] = ()) -> ShardRef:
        return cls(info.kind, info.shard, info.sha256, info.counts, tuple(states))


@dataclass(frozen=True)
class Snapshot:
    """`number` 0 is the state of a store that has none yet: whatever is published.

    Snapshots of earlier versions of this package have no `description` and no `files`; what those would be compared
    with is then taken as it is.
    """

    number: int
    shards: tuple[ShardRef, ...]
    refused: tuple[Problem, ...]
    description: Mapping[str, Any] | None = None
    """The content of `store.json`."""
    files: Mapping[str, FileDigest] = field(default_factory=dict)
    """The files in the root of the store, as they were published with this snapshot."""
    previous: str | None = None
    """SHA-256 of the snapshot before."""

    def of_kind(self, kind: ShardKind) -> list[ShardRef]:
        return [ref for ref in self.shards if ref.kind == kind]

    def document(self) -> bytes:
        """The file that holds it."""
        return dump_json(
            {
                "format": FORMAT,
                "snapshot": self.number,
                "previous": self.previous,
                "store": self.description,
                "files": {name: vars(digest) for name, digest in self.files.items()},
                "shards": [
                    {
                        "kind": ref.kind,
                        "shard": ref.shard,
                        "sha256": ref.sha256,
                        "counts": dict(ref.counts),
                        **({"states": list(ref.states)} if ref.states else {}),
                    }
                    for ref in self.shards
                ],
                "refused": [{name: getattr(problem, name) for name in REFUSED} for problem in self.refused],
            }
        )


@dataclass(frozen=True)
class Newest:
    """What `newest.json` says."""

    number: int
    sha256: str

    def document(self) -> bytes:
        return dump_json({"format": FORMAT, "snapshot": self.number, "sha256": self.sha256})


def snapshot_key(number: int) -> str:
    return f"snapshots/{number:06d}.json"


def snapshot_numbers(root: str | os.PathLike[str] | Files) -> list[int]:
    """Numbers of the snapshots that a store has, ascending."""
    files = open_files(root)
    return sorted(int(found[1]) for name in files.names("snapshots") if (found := _NAME.fullmatch(name)))


def read_newest(files: Files) -> Newest | None:
    """`newest.json`, None where there is none. Raises StoreCorruptError."""
    data, where = read_document(files, NEWEST_KEY), files.describe(NEWEST_KEY)
    if data is None:
        return None
    try:
        document = parse_json(data, where=where)
        check_format(document, where=where)
        return Newest(
            take(document, "snapshot", int, where=where), take(document, "sha256", str, where=where)
        )
    except StoreCorruptError as error:
        step = "Restore it from a copy, or remove it and run the build again, which writes it."
        raise StoreCorruptError(error.what, where=where, next_step=step) from error


def read_snapshot(root: str | os.PathLike[str] | Files, number: int | None = None) -> Snapshot:
    """Snapshot `number`, the newest by default; of a store without any, the published shards.

    Raises StoreError for a number that is not there, StoreCorruptError for a file that is no snapshot, is not the
    one that was published, or is gone.
    """
    files = open_files(root)
    newest = read_newest(files)
    if number is None and newest is None:
        numbers = snapshot_numbers(files)
        if not numbers:
            _check_lists(files)
            infos = [info for kind in SHARD_KINDS for info in published_shards(files, kind)]
            return Snapshot(0, tuple(ShardRef.of(info) for info in infos), ())
        number = numbers[-1]
    if newest is not None and number is None:
        later = snapshot_key(newest.number + 1)
        if files.size_bytes(later) is not None:
            log.warning(
                "%s is there, and newest.json does not name it: a build has not finished",
                files.describe(later),
            )
        number = newest.number
    if newest is not None and number is not None and number <= newest.number:
        return _checked(files, newest, number)
    assert number is not None
    data = read_document(files, snapshot_key(number))
    if data is None:
        known = ", ".join(map(str, snapshot_numbers(files)))
        raise StoreError(
            f"there is no snapshot {number}",
            where=files.root,
            next_step=f"Open one of these: {known or 'none yet'}.",
        )
    snapshot = parse_snapshot(data, number, files.describe(snapshot_key(number)))
    if newest is None and snapshot.files:
        log.warning(
            "%s is missing: whether snapshot %d is the newest is not known",
            files.describe(NEWEST_KEY),
            number,
        )
    return snapshot


def newer_snapshots(files: Files) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every snapshot that is there, the newest first."""
    for number in reversed(snapshot_numbers(files)):
        data = read_document(files, snapshot_key(number))
        if data is not None:
            yield number, data


def is_listed(files: Files, key: str, sha256: str) -> bool:
    """Whether any snapshot lists the file `key` with this digest: readers of one meet the root files of another."""
    for number, data in newer_snapshots(files):
        try:
            listed = parse_snapshot(data, number, files.describe(snapshot_key(number))).files
        except StoreError:
            continue
        if key in listed and listed[key].sha256 == sha256:
            return True
    return False


def listed_shard(files: Files, ref: ShardRef) -> ShardInfo:
    """The shard that a snapshot lists. Raises StoreCorruptError where it is gone, or another one is in its place."""
    info = read_shard(files, ref.kind, ref.shard)
    if info is None or info.sha256 != ref.sha256:
        raise StoreCorruptError(
            f"shard {ref.key} {'is gone' if info is None else 'is not the one that the snapshot lists'}",
            where=files.root,
            next_step="Run `inkplex-data verify` on the store; restore the shard, or build again.",
        )
    return info


def _checked(files: Files, newest: Newest, number: int) -> Snapshot:
    """Snapshot `number` with the digest that its successor names, and so on up to `newest.json`."""
    wanted: str | None = newest.sha256
    named_by = NEWEST_KEY
    for at in range(newest.number, max(number, 1) - 1, -1):
        key = snapshot_key(at)
        data = read_document(files, key)
        if data is None:
            if at == number:
                raise StoreCorruptError(
                    f"snapshot {at} is gone; {named_by} names it",
                    where=files.describe(key),
                    next_step=RESTORE_ROOT,
                )
            log.warning("%s is gone: earlier snapshots cannot be compared with it", files.describe(key))
            wanted = None
            continue
        if wanted is not None and FileDigest.of(data).sha256 != wanted:
            raise StoreCorruptError(
                f"is not the snapshot that {named_by} names: one of them was changed",
                where=files.describe(key),
                next_step=RESTORE_ROOT,
            )
        snapshot = parse_snapshot(data, at, files.describe(key))
        if at == number:
            return snapshot
        wanted, named_by = snapshot.previous, key
    raise StoreError(
        f"there is no snapshot {number}", where=files.root, next_step=f"Open one of 1 to {newest.number}."
    )


def _check_lists(files: Files) -> None:
    """Raise StoreError where folders cannot be listed: a store would seem to be empty."""
    if not files.names(""):
        raise StoreError(
            "no snapshot was found: this place lists no folders, and has no newest.json",
            where=files.root,
            next_step="Name a snapshot (`open_store(url, snapshot=1)`), or publish the store again with this version.",
        )


def parse_snapshot(data: bytes, number: int, where: str) -> Snapshot:
    """The snapshot in a file's bytes. Raises StoreCorruptError, StoreError for one of another format."""
    document = parse_json(data, where=where)
    check_format(document, where=where)
    if document.get("snapshot") != number:
        raise StoreCorruptError(f"is not snapshot {number}", where=where, next_step=RESTORE_ROOT)
    shards = []
    for entry in take(document, "shards", list, where=where):
        if not isinstance(entry, dict) or entry.get("kind") not in SHARD_KINDS:
            what = f"lists {entry!r:.80}, which is not a shard"
            raise StoreCorruptError(what, where=where, next_step=RESTORE_ROOT)
        shard: int = take(entry, "shard", int, where=where)
        counts: dict[str, int] = take(entry, "counts", dict, where=where)
        for name in counts:
            take(counts, name, int, where=where)
        sha256: str = take(entry, "sha256", str, where=where)
        states: list[str] = take({"states": [], **entry}, "states", list, where=where)
        shards.append(ShardRef(entry["kind"], shard, sha256, counts, tuple(map(str, states))))
    refused = []
    for entry in take(document, "refused", list, where=where):
        if not isinstance(entry, dict):
            what = f"refused row {entry!r:.80} is not a problem"
            raise StoreCorruptError(what, where=where, next_step=RESTORE_ROOT)
        refused.append(Problem(**{name: take(entry, name, str, where=where) for name in REFUSED}))
    whole = {"previous": None, "store": None, "files": {}, **document}
    return Snapshot(
        number,
        tuple(shards),
        tuple(refused),
        take(whole, "store", (dict, type(None)), where=where),
        take_digests(take(whole, "files", dict, where=where), where=where),
        take(whole, "previous", (str, type(None)), where=where),
    )
