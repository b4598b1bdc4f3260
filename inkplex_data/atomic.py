"""Files that are either there whole or not at all: written beside their place, flushed to disk, then renamed."""

from __future__ import annotations

import fcntl
import glob
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from inkplex_data.machine import naming


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and leaves nothing when it does not."""
    path = Path(path)
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path):
            with temporary.open("w+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that ended were writing here: nobody of their number runs, and nobody holds the file."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        number = leftover.name.removeprefix(f".{path.name}.").removesuffix(".tmp")
        if not number.isdecimal() or _runs(int(number)):
            continue
        with suppress(OSError), leftover.open("rb") as file:
            # Another machine's process, on a shared disk, has a number of its own; it holds the file.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """A JSON document in place of `path`; with `indent` for people to read, and with a final newline."""
    with replacing(path) as file:
        text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n" * (indent is not None)
        file.write(text.encode())


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """A JSON document a line, in place of `path`."""
    with replacing(path) as file:
        file.writelines((json.dumps(value, ensure_ascii=False) + "\n").encode() for value in values)
