"""The build's working folder, `STORE/.build`: what has been done, so that a rerun goes on from there.

Every unit's result is a folder that appears by rename and holds a stamp, the hash of all that went into
it. A result whose stamp differs is made anew. A finished build removes the whole folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inkplex_data.errors import StoreError

LEDGER = ".build"


def stamp(*parts: Any) -> str:
    """sha256 over the canonical JSON of `parts`."""
    return hashlib.sha256(
        json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str).encode()
    ).hexdigest()


def file_stamp(path: Path | None) -> list[Any] | None:
    """Identity of a file that a rerun can afford to check: size and modification time in nanoseconds."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return [str(path), None]
    return [str(path), stat.st_size, stat.st_mtime_ns]


def file_sha256(path: Path) -> str:
    """Digest of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Ledger:
    """Results of units under one folder. Workers and the driver use it alike; names are hashed, so any id is safe."""

    def __init__(self, store_root: Path) -> None:
        self.root = store_root / LEDGER

    def folder(self, kind: str, key: str) -> Path:
        return self.root / kind / hashlib.sha256(key.encode()).hexdigest()[:32]

    def done(self, kind: str, key: str, stamp_: str) -> Path | None:
        """The result's folder when it is there with this stamp."""
        folder = self.folder(kind, key)
        try:
            found = json.loads((folder / "stamp.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return folder if found == {"stamp": stamp_, "key": key} else None

    @contextmanager
    def result(self, kind: str, key: str, stamp_: str) -> Iterator[Path]:
        """A folder to fill; it becomes the result when the block ends without an error."""
        final = self.folder(kind, key)
        working = final.with_name(f"{final.name}.{os.getpid()}.tmp")
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True)
        try:
            yield working
            (working / "stamp.json").write_text(json.dumps({"stamp": stamp_, "key": key}), encoding="utf-8")
            shutil.rmtree(final, ignore_errors=True)
            working.rename(final)
        except BaseException:
            shutil.rmtree(working, ignore_errors=True)
            raise

    def forget(self, kind: str, key: str) -> None:
        shutil.rmtree(self.folder(kind, key), ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store for this build. The lock ends with the process, however that ends."""
        self.root.mkdir(parents=True, exist_ok=True)
        lock = (self.root / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise StoreError(
                "another build is writing this store",
                where=str(self.root.parent),
                next_step="wait for it, or stop it; a rerun goes on from there",
            ) from error
        try:
            yield
        finally:
            lock.close()
