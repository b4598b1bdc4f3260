"""File names of calls: readable, safe on every file system, and no two alike."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

LENGTH_BYTES: Final = 100
"""File systems take 255 bytes of a name; a hash, suffixes and those of temporary files come after this."""
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Names that are no files on Windows, with any suffix."""


class FileNames:
    """Gives each call id a file name without suffix. An id that is a plain name stays as it is."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, call_id: str) -> str:
        """A name of letters, digits, `_`, `-` and inner dots, unlike every earlier one also where file systems know no
        case or write accents in another way."""
        plain = re.sub(r"[^\w.-]+", "_", call_id).strip(".")
        name = plain.encode("utf-8", "replace")[:LENGTH_BYTES].decode("utf-8", "ignore")
        if name != call_id or _folded(name) in self._taken or _DEVICE.fullmatch(name) or name[:1] == "-":
            name = f"{name.lstrip('-.') or 'call'}-{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:8]}"
        self._taken.add(_folded(name))
        return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
