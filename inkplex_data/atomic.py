"""Files and folders that are either there whole or not at all: written beside their place, flushed to disk, then renamed.

    replacing(path)       one file
    together(last=…)      files that belong together: none is in its place before all are written
    new_folder(out)       a folder that appears by one rename
    only_writer(folder)   many files into a folder that may hold others: one process at a time, and a mark while it lasts

What a killed process leaves is removed by the next one that writes there. A file in the making is locked as long as
its process lives, so that nobody takes it for such a leftover. A full disk is an `OutputError` that names the file.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from inkplex_data.errors import OutputError, UsageError
from inkplex_data.output_path import output_path

UNFINISHED: Final = ".inkplex-unfinished"
"""Lies in a folder that a command fills or was filling when it was stopped, and holds the command's name."""

_LEFTOVER: Final = re.compile(r"\..+\.\d+\.tmp")
_FULL: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "a limit of the shell or the file system ends the file here",
}


@contextmanager
def replacing(path: Path, *, size_bytes: int | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and leaves nothing when it does not.

    `size_bytes`: how large it is going to be, where that is known, for the message about a full disk.
    """
    with together(size_bytes=size_bytes) as new:
        yield new(path)


@contextmanager
def together(
    *, last: Path | None = None, size_bytes: int | None = None
) -> Iterator[Callable[[Path], BinaryIO]]:
    """Files that take their places together, in the order in which the function that this yields opened them.

    `last`: the one of them that readers look at first. It is opened last, and an older one is removed before any other
    file takes its place, so that it never stands beside files that it does not belong to.
    """
    places: list[tuple[Path, Path]] = []
    files: list[BinaryIO] = []
    with ExitStack() as stack:

        def new(path: Path) -> BinaryIO:
            _sweep(path.parent)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            files.append(stack.enter_context(_locked_file(temporary)))
            places.append((temporary, path))
            return files[-1]

        try:
            with _naming(places, size_bytes):
                yield new
            for place, file in zip(places, files, strict=True):
                with _naming([place], size_bytes):
                    file.flush()
                    os.fsync(file.fileno())
            if last is not None:
                last.unlink(missing_ok=True)
            for temporary, path in places:
                temporary.replace(path)
        except BaseException:
            for (temporary, _), file in zip(places, files, strict=True):
                temporary.unlink(missing_ok=True)
                with suppress(OSError):  # closing writes what is buffered, for which there is no room
                    file.close()
            raise


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when the block ends well; nothing is there when it does not.

    `out` is new or empty. What a killed process was making there is removed first. Raises UsageError for a folder that
    holds something or cannot be replaced, OutputError while another process makes it.
    """
    target = output_path(out).resolve()
    _refuse_full(target, out)
    making = target.with_name(f".{target.name}.inkplex-partial")
    with _folder_locked(making, shown=out):
        try:
            _refuse_full(target, out)  # another process may have made it in the meantime
            for leftover in making.iterdir():
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            with _naming([(making, out)]):
                yield making
                for path in making.rglob("*"):
                    fsync(path)
            if target.exists():
                making.chmod(target.stat().st_mode)
            making.replace(target)
            fsync(target.parent)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


def _refuse_full(target: Path, out: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise UsageError("the folder is not empty", where=str(out), next_step="Choose another folder for -o.")
    if target.is_mount() or Path.cwd().is_relative_to(target):
        raise UsageError(
            "the current folder, or one that a disk is mounted at, cannot appear by one rename",
            where=str(out),
            next_step="Name a new folder inside it.",
        )


@contextmanager
def only_writer(folder: Path, *, command: str | None = None) -> Iterator[None]:
    """Fill `folder`, made if it is not there, while no other process does.

    `command`: name of the command without which the folder is not complete. As long as it has not ended well
    `unfinished` tells so, also after a kill.
    Raises OutputError while another process writes into the folder.
    """
    is_new = not folder.exists()
    mark = folder / UNFINISHED
    if is_new and command is not None:
        _appear_marked(folder, command)
    with _folder_locked(folder, shown=folder):
        try:
            if command is not None:
                with naming_full_disks(mark):
                    mark.write_text(command, encoding="utf-8")
            yield
            mark.unlink(missing_ok=True)
        finally:
            if is_new:
                if os.listdir(folder) == [UNFINISHED]:  # noqa: PTH208
                    mark.unlink()
                with suppress(OSError):
                    folder.rmdir()


def _appear_marked(folder: Path, command: str) -> None:
    """Let a new folder hold its mark from the first moment on, so that no kill leaves one that looks complete.

    Where that cannot be done, or another process was faster, nothing happens: who fills the folder makes it then, and says
    what is wrong.
    """
    making = folder.with_name(f".{folder.name}.inkplex-marked")
    try:
        making.mkdir(parents=True, exist_ok=True)
        (making / UNFINISHED).write_text(command, encoding="utf-8")
        making.rename(folder)
    except OSError:
        shutil.rmtree(making, ignore_errors=True)


def unfinished(folder: Path) -> str | None:
    """Name of the command that is filling the folder, or was when it was stopped; None for a folder that is complete."""
    try:
        with (folder / UNFINISHED).open("rb") as file:
            return file.read(200).decode(errors="replace") or "a command"
    except (FileNotFoundError, NotADirectoryError):
        return None


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """A JSON document; with `indent` for people to read, and with a final newline."""
    return (json.dumps(value, indent=indent, ensure_ascii=False) + "\n" * (indent is not None)).encode()


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """A JSON document in place of `path`; see `json_bytes`."""
    data = json_bytes(value, indent=indent)
    with replacing(path, size_bytes=len(data)) as file:
        file.write(data)


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """A JSON document a line, in place of `path`."""
    with replacing(path) as file:
        file.writelines((json.dumps(value, ensure_ascii=False) + "\n").encode() for value in values)


@contextmanager
def naming_full_disks(path: Path) -> Iterator[None]:
    """For files that are written otherwise: a full disk is an OutputError that names `path`."""
    with _naming([(path, path)]):
        yield


@contextmanager
def _naming(places: Sequence[tuple[Path, Path]], size_bytes: int | None = None) -> Iterator[None]:
    """Turn a full disk into an OutputError that names the last of `places`: (what is written, what it becomes)."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or not places:
            raise
        raise full_disk(error, *places[-1], size_bytes=size_bytes) from error


def full_disk(error: OSError, working: Path, path: Path, *, size_bytes: int | None = None) -> OutputError:
    """What is said of `error`, ENOSPC, EDQUOT or EFBIG, which struck while `working` was made, which becomes `path`."""
    told = [f"{size_bytes:,} bytes are needed" if size_bytes is not None else ""]
    with suppress(OSError):
        told.append(f"{_size_bytes(working):,} bytes were written")
        told.append(f"{shutil.disk_usage(working.parent).free:,} are free")
    what = _FULL.get(error.errno or 0, error.strerror or str(error))
    fault = OutputError(
        f"{what} ({', '.join(filter(None, told))})",
        where=str(path),
        next_step="Make room, or name a folder on another disk, and run the same command again.",
    )
    fault.is_full = True
    return fault


def _size_bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


@contextmanager
def _locked_file(path: Path) -> Iterator[BinaryIO]:
    while True:
        with path.open("w+b") as file:
            _lock(file.fileno(), wait=True)
            if os.fstat(file.fileno()).st_nlink:
                yield file
                return
        # A sweep took it for a leftover between its opening and its locking.


@contextmanager
def _folder_locked(folder: Path, *, shown: Path) -> Iterator[None]:
    """Make and hold a folder. The lock ends with the process, however that ends."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            if not _lock(handle, wait=False):
                raise OutputError(
                    "another process is writing here",
                    where=str(shown),
                    next_step="Wait for it, or name another folder.",
                )
            if folder.exists() and os.path.samestat(os.fstat(handle), folder.stat()):
                yield
                return
            # Another process has renamed or removed it between its opening and its locking.
        finally:
            os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether this process has the file to itself; True also where the file system knows no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left in `folder`, before this process writes its first file there."""
    with suppress(OSError), os.scandir(folder) as entries:
        for leftover in [Path(entry.path) for entry in entries if _LEFTOVER.fullmatch(entry.name)]:
            with suppress(OSError), leftover.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()


def fsync(path: Path) -> None:
    """Make the bytes of a file, or the names in a folder, durable: a rename survives a power cut only after this."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
