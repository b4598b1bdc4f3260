"""How files that somebody else made are opened and read: no pipe or device, and no more than a bound."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import BinaryIO, Final, cast

from inkplex_data.errors import CorpusError

DOCUMENT_BYTES: Final = 256 * 2**20
"""Largest single document that is read as a whole: days of word timings."""


def open_file(path: Path) -> BinaryIO:
    """Open a regular file, links followed. Raises OSError, at once for a pipe or device, which may have no end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Is a pipe or device, not a file", str(path))
    return cast(BinaryIO, path.open("rb"))


def read_bounded(path: Path, limit: int = DOCUMENT_BYTES) -> bytes:
    """The whole file, if it has at most `limit` bytes. Raises CorpusError for a larger one, OSError as usual."""
    with open_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise CorpusError(f"the file is larger than {limit:,} bytes", where=str(path))
    return data
