"""SHA-256 of files that were hashed before: a rerun over a finished store reads no file that is as it was.

What is kept lies in the user's cache, not in the store: paths and times of one machine are no part of a build's bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from inkplex_data.atomic import write_json
from inkplex_data.pipeline.stamp import file_sha256

SETTLED_NS: Final = 2_000_000_000
"""A file that changed less long ago may change again within one tick of its clock, and is hashed each time."""
THREADS: Final = 8


class FileDigests:
    """Digests of the files that one store was built from. A file is known by path, inode, size and both its times."""

    def __init__(self, store: Path) -> None:
        own = hashlib.sha256(os.fsencode(store.absolute())).hexdigest()[:32]
        self._path = _cache_folder() / "file-digests" / f"{own}.json"
        self._known: dict[str, list[object]] = _read(self._path)
        self._found: dict[str, list[object]] = {}
        self.hashed = 0

    def __call__(self, path: Path) -> str | None:
        """SHA-256 of the file's bytes, None where it is not there. Raises OSError where it cannot be read."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        mark = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        known = self._found.get(str(path)) or self._known.get(str(path))
        if known is None or known[:-1] != mark:
            settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS
            known = [*(mark if settled else []), file_sha256(path)]
            self.hashed += 1
        self._found[str(path)] = known
        return str(known[-1])

    def look(self, paths: Iterable[Path]) -> None:
        """Hash several files at a time; later questions are answered from what was found."""
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(self, dict.fromkeys(paths)):
                pass

    def keep(self) -> None:
        """Remember what was found for the next run. A cache that cannot be written is none."""
        kept = {path: known for path, known in self._found.items() if len(known) > 1}
        if kept == self._known:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, kept)
        except OSError:
            return


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "inkplex-data"


def _read(path: Path) -> dict[str, list[object]]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: known for name, known in found.items() if isinstance(known, list) and len(known) == 5}
