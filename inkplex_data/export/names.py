"""File names of calls: readable, safe on every file system, and no two alike."""

from __future__ import annotations

import hashlib
import re

LENGTH = 100


class FileNames:
    """Gives each call id a file name without suffix. An id that is a plain name stays as it is."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, call_id: str) -> str:
        """A name of letters, digits, `_`, `-` and inner dots, unlike every earlier one also without regard to case."""
        name = re.sub(r"[^\w.-]+", "_", call_id).strip(".")[:LENGTH]
        if name != call_id or name.casefold() in self._taken:
            name = f"{name or 'call'}-{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
        self._taken.add(name.casefold())
        return name
