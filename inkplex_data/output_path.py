"""Where results are written: a local path. One rule for everything that writes, applied before any work."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from inkplex_data.errors import UsageError

FILE_URL: Final = "file://"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a URL begins, also one whose slashes a `Path` has joined. A folder's name may have a colon anywhere else."""


def output_path(given: str | os.PathLike[str]) -> Path:
    """`given` as a local path; a `file://` URL is the path that follows.

    Raises UsageError for other URLs: results are moved into place by renaming, which only a file system does.
    """
    text = os.fspath(given).removeprefix(FILE_URL)
    if not text:
        raise UsageError("the output has no name", next_step="Name a file or folder.")
    if _URL.match(text):
        raise UsageError(
            "this is a URL; results are written to a local folder",
            where=text,
            next_step="Name a local folder, and copy the result there; stores are read from such URLs.",
        )
    return Path(text)
