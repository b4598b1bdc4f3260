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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inkplex_data.errors import StoreError
from inkplex_data.pipeline.stamp import file_stamp

LEDGER: Final = ".build"


@dataclass
class OpenResult:
    """A result in the making. `files`: identities of files that only the work itself found, checked by `done`."""

    folder: Path
    files: list[Any] = field(default_factory=list)


class Ledger:
    """Results of units under one folder. Workers and the driver use it alike; names are hashed, so any id is safe."""

    def __init__(self, store_root: Path) -> None:
        self.root = store_root / LEDGER

    def folder(self, kind: str, key: str) -> Path:
        return self.root / kind / hashlib.sha256(key.encode()).hexdigest()[:32]

    def done(self, kind: str, key: str, stamp: str) -> Path | None:
        """The result's folder when it is there with this stamp, and the files that it names are as they were."""
        folder = self.folder(kind, key)
        try:
            found = json.loads((folder / "stamp.json").read_text(encoding="utf-8"))
            same = found["stamp"] == stamp and found["key"] == key
            fresh = all(file_stamp(Path(file[0])) == file for file in found["files"])
        except (OSError, ValueError, TypeError, LookupError):
            return None
        return folder if same and fresh else None

    @contextmanager
    def result(self, kind: str, key: str, stamp: str) -> Iterator[OpenResult]:
        """A folder to fill; it becomes the result when the block ends without an error."""
        final = self.folder(kind, key)
        working = final.with_name(f"{final.name}.{os.getpid()}.tmp")
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True)
        result = OpenResult(working)
        try:
            yield result
            body = {"stamp": stamp, "key": key, "files": result.files}
            (working / "stamp.json").write_text(json.dumps(body), encoding="utf-8")
            shutil.rmtree(final, ignore_errors=True)
            working.rename(final)
        except BaseException:
            shutil.rmtree(working, ignore_errors=True)
            raise

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
                next_step="Wait for it, or stop it; the same command then continues from there.",
            ) from error
        try:
            yield
        finally:
            lock.close()
