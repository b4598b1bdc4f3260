"""How a snapshot appears: the snapshot, then the root tables it lists, and `newest.json` last.

Readers follow `newest.json`, so a build that is killed in between leaves the snapshot before whole; the root tables
that they then meet are listed by the new snapshot, and their own shards hold the same rows. A rerun ends the work.

The root tables are calls, recordings, prefixes, problems and splits: copies of the shards' own, for other tools and
for speed. Each is replaced whole.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.problems import Problem
from inkplex_data.store.arrays.states_read import StatesReader
from inkplex_data.store.catalog import COVERS, KIND_OF, REFUSED, Catalog, coverage, family_splits
from inkplex_data.store.describe import PIECES_KEY, STORE_KEY, read_description
from inkplex_data.store.digests import FileDigest, digest_file, digest_stored
from inkplex_data.store.files import Files, LocalFiles, open_files
from inkplex_data.store.format import SHARD_KINDS, SPLIT_TABLE
from inkplex_data.store.parquet import TableWriter
from inkplex_data.store.publish import ShardInfo, published_shards
from inkplex_data.store.snapshot import (
    NEWEST_KEY,
    Newest,
    ShardRef,
    Snapshot,
    newer_snapshots,
    parse_snapshot,
    read_newest,
    snapshot_key,
    snapshot_numbers,
)

INDEX_KEYS: Final = tuple(f"{name}.parquet" for name in [*sorted(KIND_OF), "splits"])
_TEMPORARY: Final = ".tmp-index-"


def publish_snapshot(
    root: str | os.PathLike[str], *, refused: Sequence[Problem] = (), retired: Collection[str] | None = None
) -> Snapshot:
    """List the shards of the newest snapshot and those published since, and the problems of refused calls; index them.

    Refusals of the last snapshot stay, except for calls that `refused` names again; the
    reader leaves out those of calls published since. Notes on the corpus, which have no call id, are those of
    `refused` alone: every build lists its corpus anew. `retired` are the keys of shards that the next snapshot does
    not list any more; with it, even an empty one, only what `refused` names is refused. Where nothing changed, the newest snapshot is
    returned, and only what is missing of it is written. Raises StoreError if another build took the same number or
    a family is in two splits, StoreCorruptError if a shard's tables or the last snapshot are damaged.
    """
    files = open_files(root)
    for name in files.names("snapshots"):
        if name.startswith(".tmp-"):  # of a build that was killed between writing and naming one
            files.remove(f"snapshots/{name}")
    last, last_sha256 = _last(files)
    known = {(ref.key, ref.sha256): ref for ref in (last.shards if last else ())}
    gone = _retired(files, last) | set(retired or ())
    published = (info for kind in SHARD_KINDS for info in published_shards(files, kind))
    infos = [info for info in published if info.key not in gone]
    shards = tuple(known.get((info.key, info.sha256)) or _ref(files, info) for info in infos)
    again = {"", *(problem.call_id for problem in refused)}
    before = last.refused if last and retired is None else ()
    kept = [problem for problem in before if problem.call_id not in again]
    wanted = Snapshot(
        number=last.number + 1 if last else 1,
        shards=shards,
        refused=(*kept, *refused),
        description=read_description(files),
        files={
            key: digest_stored(files, key)
            for key in (STORE_KEY, PIECES_KEY)
            if files.size_bytes(key) is not None
        },
        previous=last_sha256,
    )
    if last is not None and _same(last, wanted):
        if _is_indexed(files, last):
            _name_newest(files, Newest(last.number, last_sha256 or ""))
            return last
        with _index(files, last) as folder:
            if _digests(folder) == _index_digests(last):
                return _finish(files, last, last_sha256 or "", folder)
    with _index(files, wanted) as folder:
        snapshot = replace(wanted, files={**wanted.files, **_digests(folder)})
        document = snapshot.document()
        try:
            files.write(snapshot_key(snapshot.number), document, exclusive=True)
        except FileExistsError as error:
            raise StoreError(
                f"another build wrote snapshot {snapshot.number} at the same time",
                where=files.root,
                next_step="Run one build at a time on a store; run this one again.",
            ) from error
        return _finish(files, snapshot, FileDigest.of(document).sha256, folder)


def _last(files: Files) -> tuple[Snapshot | None, str | None]:
    """The last snapshot that was written, named by `newest.json` or not, and its SHA-256."""
    newest, numbers = read_newest(files), snapshot_numbers(files)
    number = max([*numbers, newest.number if newest else 0])
    if not number:
        return None, None
    where = files.describe(snapshot_key(number))
    data = files.read(snapshot_key(number))
    found = None if data is None else FileDigest.of(data).sha256
    if data is None or (newest is not None and newest.number == number and newest.sha256 != found):
        what = "is gone" if data is None else "was changed"
        step = f"Restore it from a copy, or remove it and {NEWEST_KEY}, and run the build again."
        raise StoreCorruptError(f"the newest snapshot {what}", where=where, next_step=step)
    return parse_snapshot(data, number, where), found


def _retired(files: Files, last: Snapshot | None) -> set[str]:
    """Shards that an older snapshot lists and the newest does not."""
    listed: set[str] = set()
    for number, data in newer_snapshots(files):
        if last is None or number >= last.number:
            continue
        with suppress(StoreError):  # one that is damaged is for `verify` to report
            listed |= {
                ref.key for ref in parse_snapshot(data, number, files.describe(snapshot_key(number))).shards
            }
    return listed - {ref.key for ref in (last.shards if last else ())}


def _ref(files: Files, info: ShardInfo) -> ShardRef:
    if not info.counts.get("state_width"):
        return ShardRef.of(info)
    with StatesReader(f"{info.key}/arrays.zarr/states", files=files) as states:
        return ShardRef.of(info, [states.fingerprint(shard) for shard in range(states.geometry.shards)])


def _same(last: Snapshot, wanted: Snapshot) -> bool:
    """Whether `last` says all that `wanted` would, index aside."""
    rest = {key: digest for key, digest in last.files.items() if key not in INDEX_KEYS}
    return replace(last, number=0, previous=None, files=rest) == replace(wanted, number=0, previous=None)


def _index_digests(snapshot: Snapshot) -> dict[str, FileDigest]:
    return {key: digest for key, digest in snapshot.files.items() if key in INDEX_KEYS}


def _is_indexed(files: Files, snapshot: Snapshot) -> bool:
    return all(
        key in snapshot.files
        and files.size_bytes(key) == snapshot.files[key].size_bytes
        and digest_stored(files, key) == snapshot.files[key]
        for key in INDEX_KEYS
    )


def _digests(folder: Path) -> dict[str, FileDigest]:
    return {key: digest_file(folder / key) for key in INDEX_KEYS}


@contextmanager
def _index(files: Files, snapshot: Snapshot) -> Iterator[Path]:
    """A temporary folder with the root tables of `snapshot`."""
    catalog = Catalog(files, snapshot, use_index=False)
    splits = family_splits(catalog.frame("calls", ["family", "split"]), where=files.root)
    # On a local root beside the targets, so that putting a file in place is one rename.
    beside = files.folder if isinstance(files, LocalFiles) else None
    for leftover in [] if beside is None else beside.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=beside) as name:
        folder = Path(name)
        for table, kind in KIND_OF.items():
            metadata = {COVERS: json.dumps(coverage(snapshot.of_kind(kind)))}
            if table == "problems":
                metadata[REFUSED] = str(snapshot.number)
            path = folder / f"{table}.parquet"
            with TableWriter(path, catalog.schema(table), metadata=metadata) as writer:
                for part in catalog.chunks(table):
                    writer.write(part)
        with TableWriter(folder / "splits.parquet", SPLIT_TABLE) as writer:
            writer.write(splits)
        yield folder


def _finish(files: Files, snapshot: Snapshot, sha256: str, folder: Path) -> Snapshot:
    for key in INDEX_KEYS:
        files.put(folder / key, key)
    _name_newest(files, Newest(snapshot.number, sha256))
    return snapshot


def _name_newest(files: Files, newest: Newest) -> None:
    if files.read(NEWEST_KEY) != newest.document():
        files.write(NEWEST_KEY, newest.document())
