"""Faults of the machine, which are nobody's data: a full disk, too little memory, too many open files.

One place recognises them, however a library dresses them up, and says path, size and what to do.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from inkplex_data.errors import MachineFault, OutputError

AGAIN: Final = "then run the same command again"
_KNOWN: Final = {
    errno.ENOSPC: ("no space is left on the disk", f"Free some space, {AGAIN}."),
    errno.EDQUOT: ("the disk quota is used up", f"Free some space or ask for a larger quota, {AGAIN}."),
    errno.EFBIG: (
        "a limit of the shell or the file system ends the file here",
        f"Raise the limit (`ulimit -f`) or use another file system, {AGAIN}.",
    ),
    errno.EROFS: ("the file system is read-only", f"Mount it for writing, {AGAIN}."),
    errno.EIO: (
        "the disk or the network gives an input/output error",
        f"Check the disk or the mount, {AGAIN}.",
    ),
    errno.ESTALE: ("the network file system has lost the file", f"Check the mount, {AGAIN}."),
    errno.ETIMEDOUT: ("the disk or the network does not answer", f"Check the mount, {AGAIN}."),
    errno.EMFILE: (
        "too many files are open",
        f"Raise the limit (`ulimit -n`) or use fewer --workers, {AGAIN}.",
    ),
    errno.ENFILE: ("too many files are open", f"Close other programs or use fewer --workers, {AGAIN}."),
    errno.ENOMEM: ("there is not enough memory", f"Use fewer --workers or close other programs, {AGAIN}."),
}
"""What an operating system's error means, and what to do."""

FINAL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Faults that a second try meets again."""


def machine_fault(error: BaseException, path: Path | None = None) -> MachineFault | None:
    """The fault of the machine that `error` comes from, None where it comes from something else.

    `path` is what was being written, for libraries that do not say it.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MachineFault):
            return cause
        if isinstance(cause, OutputError) and cause.is_full:
            fault = MachineFault(cause.what, where=cause.where, next_step=cause.next_step)
            fault.is_final = True
            return fault
        number = _errno(cause)
        if number is not None:
            what, step = _KNOWN[number]
            place = getattr(cause, "filename", None) or path
            fault = MachineFault(
                what + (_free(Path(os.fsdecode(place))) if place and number in FINAL else ""),
                where=os.fsdecode(place) if place else None,
                next_step=step,
            )
            fault.is_final = number in FINAL
            return fault
        cause = cause.__cause__
    return None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An operating system's error in the block names `path` where it names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def machine_faults_said(path: Path) -> Iterator[None]:
    """What the machine does to who writes `path`, said as such. Raises MachineFault."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        fault = machine_fault(error, path)
        if fault is None or fault is error:
            raise
        raise fault from error


def _errno(error: BaseException) -> int | None:
    """The error's number, if it is one of the machine's."""
    # FFmpeg reports damaged files as input/output errors.
    if isinstance(error, OSError) and not type(error).__module__.startswith("av"):
        if error.errno in _KNOWN:
            return error.errno
        if isinstance(error, TimeoutError):
            return errno.ETIMEDOUT
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return errno.ENOMEM
    # Libraries in other languages keep the words only.
    text = str(error)
    if "os error 28" in text or "No space left on device" in text:
        return errno.ENOSPC
    return errno.ENOMEM if "not enough memory" in text or "Cannot allocate memory" in text else None


def _free(path: Path) -> str:
    for folder in (path, *path.parents):
        try:
            return f" ({shutil.disk_usage(folder).free:,} bytes are free)"
        except OSError:
            continue
    return ""
