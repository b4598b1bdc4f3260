"""Snapshots: `snapshots/NNNNNN.json` lists the shards that belong together, the calls refused, and under no call's
id what was noted of the corpus as a whole.

A reader pins one, so a build that adds shards while it reads changes nothing for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.problems import Problem
from inkplex_data.store.documents import dump_json, load_json, take
from inkplex_data.store.files import Files, open_files
from inkplex_data.store.format import FORMAT, PROBLEMS, SHARD_KINDS, ShardKind
from inkplex_data.store.publish import ShardInfo, published_shards, shard_folder

_NAME = re.compile(r"(\d{6,})\.json")


@dataclass(frozen=True)
class ShardRef:
    """One shard as a snapshot lists it."""

    kind: ShardKind
    shard: int
    sha256: str
    counts: Mapping[str, int]

    @property
    def key(self) -> str:
        return shard_folder(self.kind, self.shard)

    @classmethod
    def of(cls, info: ShardInfo) -> ShardRef:
        return cls(info.kind, info.shard, info.sha256, info.counts)


@dataclass(frozen=True)
class Snapshot:
    """`number` 0 is the state of a store that has none yet: whatever is published."""

    number: int
    shards: tuple[ShardRef, ...]
    refused: tuple[Problem, ...]

    def of_kind(self, kind: ShardKind) -> list[ShardRef]:
        return [ref for ref in self.shards if ref.kind == kind]


def snapshot_key(number: int) -> str:
    return f"snapshots/{number:06d}.json"


def snapshot_numbers(root: str | os.PathLike[str] | Files) -> list[int]:
    """Numbers of the snapshots that a store has, ascending."""
    files = open_files(root)
    return sorted(int(found[1]) for name in files.names("snapshots") if (found := _NAME.fullmatch(name)))


def read_snapshot(root: str | os.PathLike[str] | Files, number: int | None = None) -> Snapshot:
    """Snapshot `number`, the newest by default; of a store without any, the published shards.

    Raises StoreError for a number that is not there, StoreCorruptError for a file that is no snapshot.
    """
    files = open_files(root)
    numbers = snapshot_numbers(files)
    if number is None:
        if not numbers:
            infos = [info for kind in SHARD_KINDS for info in published_shards(files, kind)]
            return Snapshot(0, tuple(ShardRef.of(info) for info in infos), ())
        number = numbers[-1]
    document = load_json(files, snapshot_key(number))
    if document is None:
        raise StoreError(
            f"there is no snapshot {number}",
            where=files.root,
            next_step=f"Open one of these: {', '.join(map(str, numbers)) or 'none yet'}.",
        )
    return _parse(document, number, files.describe(snapshot_key(number)))


def publish_snapshot(
    root: str | os.PathLike[str], *, refused: Sequence[Problem] = (), retired: Collection[str] | None = None
) -> Snapshot:
    """List the shards of the newest snapshot and those published since, and the problems of refused calls.

    Refusals of the last snapshot stay, except for calls that `refused` names again; the
    reader leaves out those of calls published since. Notes on the corpus, which have no call id, are those of
    `refused` alone: every build lists its corpus anew. `retired` are the keys of shards that the next snapshot does
    not list any more; with it, even an empty one, only what `refused` names is refused.
    Where nothing changed, the newest snapshot is returned and nothing is written.
    Raises StoreError if another build took the same number.
    """
    files = open_files(root)
    for name in files.names("snapshots"):
        if name.startswith(".tmp-"):  # of a build that was killed between writing and naming one
            files.remove(f"snapshots/{name}")
    numbers = snapshot_numbers(files)
    last = read_snapshot(files) if numbers else None
    # What an older snapshot lists and the newest does not was retired.
    gone = {ref.key for number in numbers[:-1] for ref in read_snapshot(files, number).shards}
    gone = (gone - {ref.key for ref in last.shards} if last else gone) | set(retired or ())
    published = (info for kind in SHARD_KINDS for info in published_shards(files, kind))
    shards = tuple(ShardRef.of(info) for info in published if info.key not in gone)
    again = {"", *(problem.call_id for problem in refused)}
    before = last.refused if last and retired is None else ()
    kept = [problem for problem in before if problem.call_id not in again]
    snapshot = Snapshot(numbers[-1] + 1 if numbers else 1, shards, (*kept, *refused))
    if last and (last.shards, last.refused) == (snapshot.shards, snapshot.refused):
        return last
    document = {
        "format": FORMAT,
        "snapshot": snapshot.number,
        "shards": [
            {"kind": ref.kind, "shard": ref.shard, "sha256": ref.sha256, "counts": dict(ref.counts)}
            for ref in snapshot.shards
        ],
        "refused": [{name: getattr(problem, name) for name in PROBLEMS} for problem in snapshot.refused],
    }
    try:
        files.write(snapshot_key(snapshot.number), dump_json(document), exclusive=True)
    except FileExistsError as error:
        raise StoreError(
            f"another build wrote snapshot {snapshot.number} at the same time",
            where=files.root,
            next_step="Run one build at a time on a store; run this one again.",
        ) from error
    return snapshot


def _parse(document: Mapping[str, Any], number: int, where: str) -> Snapshot:
    if document.get("format") != FORMAT or document.get("snapshot") != number:
        raise StoreCorruptError(f"is not snapshot {number} of format {FORMAT}", where=where)
    shards = []
    for entry in take(document, "shards", list, where=where):
        if not isinstance(entry, dict) or entry.get("kind") not in SHARD_KINDS:
            raise StoreCorruptError(f"lists {entry!r:.80}, which is not a shard", where=where)
        shard: int = take(entry, "shard", int, where=where)
        counts: dict[str, int] = take(entry, "counts", dict, where=where)
        for name in counts:
            take(counts, name, int, where=where)
        shards.append(ShardRef(entry["kind"], shard, take(entry, "sha256", str, where=where), counts))
    refused = []
    for entry in take(document, "refused", list, where=where):
        if not isinstance(entry, dict):
            raise StoreCorruptError(f"refused row {entry!r:.80} is not a problem", where=where)
        refused.append(Problem(**{name: take(entry, name, str, where=where) for name in PROBLEMS}))
    return Snapshot(number, tuple(shards), tuple(refused))
