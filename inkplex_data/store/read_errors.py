"""What reading fails with, in words of the error family: the place, what happened, what to do.

A file that is not there stays FileNotFoundError; whoever asked knows what that means.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from inkplex_data.errors import InkplexError, MissingLibraryError, StoreError

_ABSENT: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError)
_STEPS: Final = {
    errno.EMFILE: "Allow this process more open files (`ulimit -n 4096`), or open fewer stores at a time.",
    errno.ENFILE: "Close other programs: the machine has no more open files to give.",
    errno.EACCES: "Give this user the right to it (`ls -l` shows who has it).",
    errno.EPERM: "Give this user the right to it (`ls -l` shows who has it).",
    errno.ENOMEM: "Free some memory, or read less at a time.",
}
_AGAIN: Final = "Try again; if it stays so, look after the server or the connection."
_LIBRARIES: Final = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "s3a": "s3fs"}
"""What the extra `remote` installs, by protocol."""

NO_RANGES: Final = "Serve the store with a server that answers Range requests (nginx, Apache, an object store), or copy it here."


class local_access:  # noqa: N801 - used as a function; a generator would take longer than a small read
    """Within the block, an operating system's error about `where` is a StoreError."""

    __slots__ = ("_where",)

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, (InkplexError, *_ABSENT)):
            step = _STEPS.get(error.errno or 0, "Check the disk and the path.")
            what = f"the system refuses access: {error.strerror or error}"
            raise StoreError(what, where=str(self._where), next_step=step) from error


@contextmanager
def remote_access(where: str) -> Iterator[None]:
    """Within the block, whatever a file system library raises about `where` is a StoreError.

    Each library has errors of its own, without a common class.
    """
    try:
        yield
    except FileNotFoundError as error:
        # fsspec says this of any HTTP answer that is none: the cause tells a missing file from a refusal.
        cause = error.__cause__
        if cause is None or not (
            isinstance(cause, TimeoutError) or type(cause).__module__.startswith("aiohttp")
        ):
            raise
        if getattr(cause, "status", None) in {404, 410}:
            raise
        raise _remote_error(cause, where) from error
    except (InkplexError, *_ABSENT):
        raise
    except Exception as error:
        raise _remote_error(error, where) from error


def missing_library(url: str, error: ImportError) -> InkplexError:
    """The error for a URL whose protocol needs a library that is not installed."""
    library = _LIBRARIES.get(url.split("://", maxsplit=1)[0])
    if library is not None:
        return MissingLibraryError(library, extra="remote", needed_for=f"opening {url}")
    return StoreError(
        f"cannot open this URL: {error}",
        where=url,
        next_step="Install the fsspec package for its protocol (gcsfs, adlfs …) or correct it.",
    )


def _remote_error(error: BaseException, where: str) -> StoreError:
    status = getattr(error, "status", None)
    text = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(status, int):
        what = f"the server answers {status} ({getattr(error, 'message', '')})"
        if status in {401, 403}:
            return StoreError(
                what, where=where, next_step="Check the URL, and give this client the right to read there."
            )
        return StoreError(what, where=where, next_step=_AGAIN)
    if isinstance(error, TimeoutError):
        return StoreError("no answer within the time allowed", where=where, next_step=_AGAIN)
    if isinstance(error, ValueError) and ("range" in text or "seek" in text):
        return StoreError("the server does not answer Range requests", where=where, next_step=NO_RANGES)
    if isinstance(error, PermissionError):
        step = "Check the URL and the credentials: this client may not read there."
        return StoreError(f"access is refused: {text}", where=where, next_step=step)
    step = _STEPS.get(getattr(error, "errno", None) or 0, _AGAIN)
    return StoreError(f"access fails: {text}", where=where, next_step=step)
