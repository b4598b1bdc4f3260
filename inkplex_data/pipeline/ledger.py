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
from typing import IO, Any, Final

from inkplex_data.atomic import fsync, write_json
from inkplex_data.errors import StoreError
from inkplex_data.machine import naming
from inkplex_data.pipeline.stamp import file_sha256, file_stamp
from inkplex_data.store.files import LocalFiles

LEDGER: Final = ".build"
LOCK: Final = "lock"
STAMP: Final = "stamp.json"
MOVED: Final = "moved.json"
_CHECKED: Final[set[tuple[str, int, int]]] = set()
"""Results whose bytes this process has read and found right."""


@dataclass(frozen=True)
class MovedFiles:
    """Where files of a result lie now: in a published shard, from row `first` on."""

    shard: Path
    first: int


def note_moved(folder: Path, name: str, moved: MovedFiles) -> None:
    """The folder `name` of the result in `folder` may go: what it holds lies in a shard."""
    write_json(
        folder / MOVED,
        {
            "name": name,
            "shard": os.path.relpath(moved.shard, folder),
            "sha256": file_sha256(moved.shard / "shard.json"),
            "first": moved.first,
        },
    )


def moved_files(folder: Path) -> MovedFiles | None:
    """Where files of the result in `folder` lie now, None where they are in it."""
    moved = _moved(folder)
    return None if moved is None else MovedFiles(folder / moved["shard"], moved["first"])


def forget_moved(folder: Path) -> None:
    """They are in the result again."""
    (folder / MOVED).unlink()


def _moved(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / MOVED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def is_locked(store_root: Path) -> bool:
    """Whether a process writes the store now. Needs no right to write there."""
    try:
        with (store_root / LEDGER / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


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
        """The result's folder when it is there with this stamp, whole, and the files that it names are as they were."""
        folder = self.folder(kind, key)
        try:
            found = json.loads((folder / STAMP).read_text(encoding="utf-8"))
            same = found["stamp"] == stamp and found["key"] == key
            fresh = all(file_stamp(Path(file[0])) == file for file in found["files"])
            whole = same and fresh and self._is_whole(folder, found["digests"])
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None
        return folder if whole else None

    @contextmanager
    def result(self, kind: str, key: str, stamp: str) -> Iterator[OpenResult]:
        """A folder to fill; it becomes the result when the block ends without an error, and then outlasts a power cut."""
        final = self.folder(kind, key)
        working = final.with_name(f"{final.name}.{os.getpid()}.tmp")
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True)
        result = OpenResult(working)
        try:
            with naming(working):
                yield result
            digests = {}
            for path in sorted(path for path in working.rglob("*") if path.is_file()):
                fsync(path)
                digests[path.relative_to(working).as_posix()] = [path.stat().st_size, file_sha256(path)]
            body = {"stamp": stamp, "key": key, "files": result.files, "digests": digests}
            write_json(working / STAMP, body)
            shutil.rmtree(final, ignore_errors=True)
            working.rename(final)
            fsync(final.parent)
        except BaseException:
            shutil.rmtree(working, ignore_errors=True)
            raise

    def _is_whole(self, folder: Path, digests: dict[str, list[Any]]) -> bool:
        """Whether a result's files have the sizes and bytes that they were made with; the bytes are read once a process.

        A disk that lost power may keep a file's name and not what is in it.
        """
        if (moved := _moved(folder)) is not None:
            if file_sha256(folder / moved["shard"] / "shard.json") != moved["sha256"]:
                return False
            digests = {name: of for name, of in digests.items() if not name.startswith(f"{moved['name']}/")}
        if any((folder / name).stat().st_size != size for name, (size, _) in digests.items()):
            return False
        mark = (str(folder), (folder / STAMP).stat().st_ino, (folder / STAMP).stat().st_mtime_ns)
        if mark not in _CHECKED:
            if any(file_sha256(folder / name) != sha256 for name, (_, sha256) in digests.items()):
                return False
            _CHECKED.add(mark)
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store for this build, from before the first file until the working folder is gone (`remove`).

        The lock ends with the process, however that ends. What processes that ended were making is removed.
        """
        lock = self._take()
        try:
            for leftover in [*self.root.glob("*/*.tmp"), *self.root.glob("*/.*.tmp")]:
                LocalFiles(leftover.parent).remove(leftover.name)
            yield
        finally:
            lock.close()

    def remove(self) -> None:
        """Remove the working folder; the build still holds its lock."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _take(self) -> IO[bytes]:
        path = self.root / LOCK
        while True:
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                lock = path.open("ab")
            except FileNotFoundError:
                continue  # a build that ended just now removed the folder
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
                if path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    return lock
            except FileNotFoundError:
                pass
            lock.close()  # of a folder that its build has removed since
