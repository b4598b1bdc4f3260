"""Where a store's bytes lie: a local folder, or anything that fsspec opens. Keys are relative, with `/`.

Everything else in this package reads and writes through `Files`, except the direct reads and the
streamed writes of local arrays, which need a path.
"""

from __future__ import annotations

import glob
import io
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol, cast

from inkplex_data.atomic import fsync
from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.machine import naming
from inkplex_data.store.read_errors import NO_RANGES, local_access, missing_library, remote_access

RESTORE = "Restore the file from a copy, or delete its shard folder and run the same build again, which makes it anew."
"""What to do about a damaged or missing file of a shard."""


def check_key(key: str, *, where: str) -> str:
    """`key` itself, if it is a plain relative path that stays below its root.

    Raises StoreCorruptError for absolute paths, `..`, empty parts, backslashes and control characters:
    keys also come from files (`shard.json`), which may lie.
    """
    parts = key.split("/")
    if not key or any(part in {"", ".", ".."} for part in parts) or "\\" in key or not key.isprintable():
        raise StoreCorruptError(
            f"{key!r} is not a path inside the store",
            where=where,
            next_step="Do not use this store; whoever made it named a file outside it.",
        )
    return key


class Files(Protocol):
    """The few operations that a store needs. Missing files give None or an empty list, never an error.

    What cannot be read although it may be there raises StoreError.
    """

    root: str

    def path(self, key: str) -> Path | None:
        """The local path of `key`, or None where there is none."""

    def describe(self, key: str) -> str:
        """`key` as an error message should name it."""

    def size_bytes(self, key: str) -> int | None:
        """Size of one file, None if it is not there."""

    def read(self, key: str) -> bytes | None:
        """All bytes of one file, None if it is not there."""

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes [start, stop) for each range, fetched together; shorter where the file ends."""

    def names(self, key: str) -> list[str]:
        """Sorted names directly below the folder `key` ("" is the root)."""

    def tree(self, key: str) -> list[str]:
        """Sorted keys of all files below the folder `key`, relative to it."""

    def open(self, key: str) -> IO[bytes]:
        """A seekable binary file for libraries that want one. Raises FileNotFoundError."""

    def write(self, key: str, data: bytes, *, exclusive: bool = False) -> None:
        """Write one whole file so that a reader sees the old or the new, never a part.

        `exclusive` raises FileExistsError instead of replacing.
        """

    def put(self, source: Path, key: str) -> None:
        """Move (locally) or upload `source` to `key`, replacing it whole."""

    def remove(self, key: str) -> None:
        """Remove a file or a folder with all below it, if it is there."""


def open_files(root: str | os.PathLike[str] | Files) -> Files:
    """Files below a local folder, or below an fsspec URL such as `s3://bucket/store` or `memory://store`."""
    if not isinstance(root, str | os.PathLike):
        return root
    text = os.fspath(root)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" in text:
        return FsspecFiles(text)
    return LocalFiles(Path(text))


def open_regular(path: Path) -> io.FileIO:
    """A file opened for reading; FileNotFoundError for a folder, pipe or device, which would block or never end."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileNotFoundError(f"{path} is not a file")
        return os.fdopen(handle, "rb", buffering=0)
    except BaseException:
        os.close(handle)
        raise


class LocalFiles:
    """A folder on this machine. Whole files are replaced by rename."""

    def __init__(self, root: Path) -> None:
        self.folder = root.expanduser()
        self.root = str(root)

    def path(self, key: str) -> Path | None:
        return self.folder / key

    def describe(self, key: str) -> str:
        return str(self.folder / key)

    def size_bytes(self, key: str) -> int | None:
        path = self.folder / key
        try:
            with local_access(path):
                found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def read(self, key: str) -> bytes | None:
        path = self.folder / key
        try:
            with local_access(path), open_regular(path) as file:
                return file.readall()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        path = self.folder / key
        with local_access(path), open_regular(path) as file:
            return [os.pread(file.fileno(), stop - start, start) for start, stop in ranges]

    def names(self, key: str) -> list[str]:
        folder = self.folder / key
        with local_access(folder):
            return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def tree(self, key: str) -> list[str]:
        folder = self.folder / key
        with local_access(folder):
            return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())

    def open(self, key: str) -> IO[bytes]:
        path = self.folder / key
        with local_access(path):
            return cast(IO[bytes], open_regular(path))

    def write(self, key: str, data: bytes, *, exclusive: bool = False) -> None:
        target = self.folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        for leftover in target.parent.glob(f".tmp-{glob.escape(target.name)}-*"):
            leftover.unlink()  # of a process that was killed here; a store has one writer at a time
        temporary = target.with_name(f".tmp-{target.name}-{secrets.token_hex(4)}")
        try:
            with naming(target), temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if exclusive:
                os.link(temporary, target)  # unlike rename, fails where the name is taken
            else:
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        fsync(target.parent)

    def put(self, source: Path, key: str) -> None:
        target = self.folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        fsync(source)
        if source.stat().st_dev == target.parent.stat().st_dev:
            source.replace(target)
        else:  # a rename cannot cross file systems: copy beside the target first
            temporary = target.with_name(f".tmp-{target.name}-{secrets.token_hex(4)}")
            try:
                shutil.copyfile(source, temporary)
                fsync(temporary)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
            source.unlink()
        fsync(target.parent)

    def remove(self, key: str) -> None:
        path = self.folder / key
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class FsspecFiles:
    """Files behind an fsspec URL. Object stores replace an object as a whole, so no rename is needed."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.root = url.rstrip("/")
        try:
            self.fs: Any
            self.fs, self.prefix = fsspec.core.url_to_fs(self.root)
        except ImportError as error:
            raise missing_library(self.root, error) from error
        except ValueError as error:
            raise StoreError(
                f"cannot open this URL: {error}", where=url, next_step="Correct the URL."
            ) from error

    def _full(self, key: str) -> str:
        return f"{self.prefix.rstrip('/')}/{key}" if key else self.prefix

    def path(self, key: str) -> Path | None:
        return None

    def describe(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    def size_bytes(self, key: str) -> int | None:
        try:
            with remote_access(self.describe(key)):
                info = self.fs.info(self._full(key))
        except FileNotFoundError:
            return None
        if info["type"] != "file":
            return None
        if info["size"] is None:
            raise StoreError(
                "the server does not say how long this file is",
                where=self.describe(key),
                next_step="Use a server that sends Content-Length, or copy the store here.",
            )
        return int(info["size"])

    def read(self, key: str) -> bytes | None:
        try:
            with remote_access(self.describe(key)):
                return bytes(self.fs.cat_file(self._full(key)))
        except (FileNotFoundError, IsADirectoryError):
            return None

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        full = self._full(key)
        starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
        with remote_access(self.describe(key)):
            # Object stores fetch these side by side.
            parts = self.fs.cat_ranges([full] * len(ranges), starts, stops, on_error="raise")
        for (start, stop), part in zip(ranges, parts, strict=True):
            if len(part) > stop - start:  # the whole file, whatever was asked for
                raise StoreError(
                    "the server does not answer Range requests",
                    where=self.describe(key),
                    next_step=NO_RANGES,
                )
        return [bytes(part) for part in parts]

    def names(self, key: str) -> list[str]:
        try:
            with remote_access(self.describe(key)):
                self.fs.invalidate_cache()  # listings are cached, and another process may have published
                found = self.fs.ls(self._full(key), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Some object stores list the folder itself among its entries.
        own = self._full(key).rstrip("/")
        entries = {name.rstrip("/") for name in found} - {own}
        return sorted(name.rsplit("/", maxsplit=1)[-1] for name in entries)

    def tree(self, key: str) -> list[str]:
        base = self._full(key).rstrip("/") + "/"
        try:
            with remote_access(self.describe(key)):
                self.fs.invalidate_cache()
                found = self.fs.find(base)
        except FileNotFoundError:
            return []
        return sorted(name.removeprefix(base) for name in found)

    def open(self, key: str) -> IO[bytes]:
        with remote_access(self.describe(key)):
            return cast(IO[bytes], _RemoteFile(self.fs.open(self._full(key), "rb"), self.describe(key)))

    def write(self, key: str, data: bytes, *, exclusive: bool = False) -> None:
        full = self._full(key)
        if exclusive and self.fs.exists(full):
            raise FileExistsError(full)
        self.fs.makedirs(full.rsplit("/", maxsplit=1)[0], exist_ok=True)
        self.fs.pipe_file(full, data)

    def put(self, source: Path, key: str) -> None:
        full = self._full(key)
        self.fs.makedirs(full.rsplit("/", maxsplit=1)[0], exist_ok=True)
        self.fs.put_file(str(source), full)

    def remove(self, key: str) -> None:
        full = self._full(key)
        if not glob.has_magic(full):
            if self.fs.exists(full):
                self.fs.rm(full, recursive=True)
            return
        # `rm` takes such a name for a pattern, and would remove whatever else it matches.
        for path in sorted({full, *self.fs.find(full, withdirs=True)}, reverse=True):
            if self.fs.isdir(path):
                self.fs.rmdir(path)
            elif self.fs.exists(path):
                self.fs.rm_file(path)


class _RemoteFile(io.RawIOBase):
    """A file of fsspec's whose failures are of the error family."""

    def __init__(self, handle: Any, where: str) -> None:
        self._handle, self._where = handle, where

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with remote_access(self._where):
            return int(self._handle.seek(offset, whence))

    def tell(self) -> int:
        return int(self._handle.tell())

    def read(self, size: int = -1) -> bytes:
        with remote_access(self._where):
            return bytes(self._handle.read(size))

    def close(self) -> None:
        if not self.closed:
            self._handle.close()
        super().close()
