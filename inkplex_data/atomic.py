"""Files that are either there whole or not at all: written beside their place, flushed to disk, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and leaves nothing when it does not."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """A JSON document in place of `path`; with `indent` for people to read, and with a final newline."""
    with replacing(path) as file:
        text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n" * (indent is not None)
        file.write(text.encode())


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """A JSON document a line, in place of `path`."""
    with replacing(path) as file:
        file.writelines((json.dumps(value, ensure_ascii=False) + "\n").encode() for value in values)
