"""Sizes and SHA-256 of a store's files: taken when they are published, compared when they are read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inkplex_data.errors import StoreCorruptError
from inkplex_data.store.documents import take
from inkplex_data.store.files import RESTORE, Files, check_key

BLOCK_BYTES: Final = 8 * 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class FileDigest:
    """Size and SHA-256 of one file."""

    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> FileDigest:
        return cls(len(data), hashlib.sha256(data).hexdigest())

    def check(self, found: FileDigest, *, where: str, next_step: str = RESTORE) -> None:
        """Raise StoreCorruptError unless `found`, of the file as it is now, is this."""
        if found.size_bytes != self.size_bytes:
            what = f"has {found.size_bytes:,} bytes, and {self.size_bytes:,} were published"
        elif found.sha256 != self.sha256:
            what = "has other bytes than were published: they changed, or this is another file"
        else:
            return
        raise StoreCorruptError(what, where=where, next_step=next_step)


def digest_file(path: Path) -> FileDigest:
    """Size and SHA-256 of a local file, read once with little memory."""
    with path.open("rb") as file:
        return FileDigest(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def digest_stored(files: Files, key: str, advance: Callable[[int], None] = lambda _: None) -> FileDigest:
    """The same of any file of a store. `advance` is told of each block's bytes. Raises FileNotFoundError."""
    digest, size_bytes = hashlib.sha256(), 0
    with files.open(key) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size_bytes += len(block)
            advance(len(block))
    return FileDigest(size_bytes, digest.hexdigest())


def take_digests(listed: Mapping[str, object], *, where: str) -> dict[str, FileDigest]:
    """Name → digest as `shard.json` and snapshots list them.

    Raises StoreCorruptError for an entry that is none, and for a name that leads out of its folder.
    """
    digests = {}
    for name, entry in listed.items():
        check_key(name, where=where)
        if not isinstance(entry, dict):
            raise StoreCorruptError(f"file {name!r} has no size and digest", where=where)
        digest = FileDigest(
            take(entry, "size_bytes", int, where=where), take(entry, "sha256", str, where=where)
        )
        if digest.size_bytes < 0 or not _SHA256.fullmatch(digest.sha256):
            raise StoreCorruptError(f"file {name!r} has an invalid size or digest", where=where)
        digests[name] = digest
    return digests
