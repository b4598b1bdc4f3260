"""How a shard appears: built in a temporary sibling, made durable, renamed, and published by `shard.json`.

`shard.json` names every file with its size and SHA-256. It is written last, so a folder without it is
not part of the store, on object stores too, where nothing renames. Published shards never change.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from inkplex_data.atomic import fsync
from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.store.digests import FileDigest, digest_file, take_digests
from inkplex_data.store.documents import dump_json, parse_json, read_document, take
from inkplex_data.store.files import RESTORE, Files, LocalFiles, open_files
from inkplex_data.store.format import FORMAT, SHARD_KINDS, ShardKind

_SHARD_NAME = re.compile(r"\d{6,}")


@dataclass(frozen=True)
class ShardInfo:
    """A published shard: its counts, its files, and the SHA-256 of its `shard.json`."""

    kind: ShardKind
    shard: int
    counts: Mapping[str, int]
    files: Mapping[str, FileDigest]
    sha256: str

    @property
    def key(self) -> str:
        return shard_folder(self.kind, self.shard)

    def digest(self, name: str, *, where: str) -> FileDigest:
        """What the file `name` of the shard was published with. Raises StoreCorruptError if none of that name was."""
        digest = self.files.get(name)
        if digest is None:
            raise StoreCorruptError("shard.json lists no such file", where=where, next_step=RESTORE)
        return digest

    @cached_property
    def by_key(self) -> dict[str, FileDigest]:
        """The same digests by the files' keys in the store."""
        return {f"{self.key}/{name}": digest for name, digest in self.files.items()}

    @property
    def size_bytes(self) -> int:
        return sum(digest.size_bytes for digest in self.files.values())


def shard_folder(kind: ShardKind, shard: int) -> str:
    """Key of a shard's folder, such as `calls/000003`."""
    return f"{kind}/{shard:06d}"


def shard_numbers(files: Files, kind: ShardKind) -> list[int]:
    """Numbers of the shard folders that exist, published or not."""
    return sorted(int(name) for name in files.names(kind) if _SHARD_NAME.fullmatch(name))


def read_shard(files: Files, kind: ShardKind, shard: int) -> ShardInfo | None:
    """The published shard, or None where there is no `shard.json`.

    Raises StoreCorruptError for a `shard.json` that is not one, or that names files outside its folder.
    """
    key = f"{shard_folder(kind, shard)}/shard.json"
    where = files.describe(key)
    data = read_document(files, key)
    if data is None:
        return None
    document = parse_json(data, where=where)
    if document.get("format") != FORMAT or document.get("kind") != kind or document.get("shard") != shard:
        what = f"does not describe shard {shard} of kind {kind}, format {FORMAT}"
        raise StoreCorruptError(what, where=where, next_step=RESTORE)
    counts: dict[str, int] = take(document, "counts", dict, where=where)
    for name in counts:
        take(counts, name, int, where=where)
    digests = take_digests(take(document, "files", dict, where=where), where=where)
    return ShardInfo(kind, shard, counts, digests, FileDigest.of(data).sha256)


def published_shards(root: str | os.PathLike[str] | Files, kind: ShardKind) -> list[ShardInfo]:
    """All published shards of one kind, by number, listed by a snapshot or not."""
    files = open_files(root)
    found = (read_shard(files, kind, shard) for shard in shard_numbers(files, kind))
    return [info for info in found if info is not None]


def is_sound(files: Files, kind: ShardKind, shard: int, sha256: str) -> bool:
    """Whether a shard is there as it was published, by the digest of its `shard.json` and the sizes of its files.

    The files' digests are for `verify`, which reads every byte.
    """
    try:
        info = read_shard(files, kind, shard)
    except StoreCorruptError:
        return False
    return (
        info is not None
        and info.sha256 == sha256
        and all(
            files.size_bytes(f"{info.key}/{name}") == digest.size_bytes for name, digest in info.files.items()
        )
    )


def withdraw(folder: Path) -> None:
    """Remove a local shard. `shard.json` goes first, so that one stopped halfway is no shard."""
    (folder / "shard.json").unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


class StagedShard:
    """A shard under construction. Fill `folder`, then `publish`, or `abort`.

    On a local root the folder is the temporary sibling `KIND/.tmp-NNNNNN-XXXX`; leftovers of the same
    shard are removed first, so two processes must not write one shard at a time. On a URL it is a local
    temporary folder that `publish` uploads.
    """

    def __init__(
        self, root: str | os.PathLike[str], kind: ShardKind, shard: int, *, replaces: str | None = None
    ) -> None:
        """`replaces`: the SHA-256 of the `shard.json` that snapshots list, for a shard that was lost or damaged.

        Raises StoreError if the shard is published already, and not to be replaced.
        """
        assert kind in SHARD_KINDS
        self.files = open_files(root)
        self.kind, self.shard = kind, shard
        self.key = shard_folder(kind, shard)
        self._replaces = replaces
        self._refuse_published()
        if isinstance(self.files, LocalFiles):
            parent = self.files.folder / kind
            parent.mkdir(parents=True, exist_ok=True)
            prefix = f".tmp-{shard:06d}-"
            for leftover in parent.glob(f"{prefix}*"):
                shutil.rmtree(leftover)
            self.folder = parent / f"{prefix}{secrets.token_hex(4)}"
            self.folder.mkdir()
        else:
            self.folder = Path(tempfile.mkdtemp(prefix=f"inkplex-{kind}-{shard:06d}-"))

    def publish(
        self, counts: Mapping[str, int], *, known: Mapping[str, FileDigest] | None = None
    ) -> ShardInfo:
        """Make the shard part of the store. `known`: digests of files that need not be read, as they are those of a
        published shard.

        Raises StoreError if it is published already, and for a replacement that differs from what was published.
        """
        names = sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file())
        known = known or {}
        digests = {name: known.get(name) or digest_file(self.folder / name) for name in names}
        document = dump_json(
            {
                "format": FORMAT,
                "kind": self.kind,
                "shard": self.shard,
                "counts": dict(counts),
                "files": {name: vars(digest) for name, digest in digests.items()},
            }
        )
        sha256 = FileDigest.of(document).sha256
        if self._replaces is not None and sha256 != self._replaces:
            raise StoreError(
                "the shard was made anew, and its bytes differ from those that were published",
                where=self.files.describe(self.key),
                next_step="Restore it from a copy, or use --update to publish what the corpus gives now.",
            )
        self._refuse_published()
        # Without shard.json it is what a build that stopped here left behind.
        self.files.remove(f"{self.key}/shard.json")
        self.files.remove(self.key)
        if isinstance(self.files, LocalFiles):
            target = self.files.folder / self.key
            for name in names:
                fsync(self.folder / name)
            for folder in {self.folder, *(p for p in self.folder.rglob("*") if p.is_dir())}:
                fsync(folder)
            self.folder.rename(target)
            fsync(target.parent)
        else:
            for name in names:
                self.files.put(self.folder / name, f"{self.key}/{name}")
        self.files.write(f"{self.key}/shard.json", document)
        self.abort()
        return ShardInfo(self.kind, self.shard, dict(counts), digests, sha256)

    def abort(self) -> None:
        """Remove the temporary folder, if it is still there."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _refuse_published(self) -> None:
        if self._replaces is None and self.files.size_bytes(f"{self.key}/shard.json") is not None:
            raise StoreError(
                "this shard is published already, and published shards never change",
                where=self.files.describe(self.key),
                next_step="Write the next free shard number, or build into another folder.",
            )
