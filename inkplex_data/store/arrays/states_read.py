"""Direct reads of a states array: every inner chunk goes from the file into the caller's buffer, once,
and its CRC32C is checked there. Nothing that is missing or damaged ever reads as zeros.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.store.arrays.states_geometry import (
    MISSING,
    ChunkRead,
    StatesGeometry,
    plan_reads,
    shard_key,
)
from inkplex_data.store.arrays.zarr_metadata import CRC_BYTES, parse_array
from inkplex_data.store.digests import FileDigest
from inkplex_data.store.files import RESTORE, Files, LocalFiles, open_files, open_regular
from inkplex_data.store.read_errors import local_access

REMOTE_CHUNKS = 8
"""Inner chunks fetched together from a remote store: 12 MB at the full width."""


class _OpenFile:
    """A file that closes when nobody holds it any more: not while another thread reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with local_access(path), open_regular(path) as file:
            self._handle = os.dup(file.fileno())

    def fileno(self) -> int:
        return self._handle

    def __del__(self) -> None:
        # Nobody could catch what a destructor raises.
        if hasattr(self, "_handle"):
            with suppress(OSError):
                os.close(self._handle)


@dataclass(frozen=True)
class _Shard:
    """`index`: the footer, uint64 [chunks, 2] of offset and size. `file`: None in a remote store."""

    index: np.ndarray
    file: _OpenFile | None


class StatesReader:
    """Random access to rows of one states array; safe to share between threads, cheap to pickle.

    Local arrays are read by `preadv` straight into the output; remote ones by ranges of the shard objects.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        files: Files | None = None,
        metadata: FileDigest | None = None,
        fingerprints: Sequence[str] = (),
    ) -> None:
        """`path` is the array's folder, or with `files` its key there.

        `metadata` is the digest that the array's `zarr.json` was published with, and `fingerprints` are those of its
        shard files: a sound file of another array is not taken for one of this. Without them, neither is compared.
        Raises StoreCorruptError if the array's metadata is missing, another's, or not of this format.
        """
        if files is None:
            files, path = LocalFiles(Path(path)), ""
        self._files = files
        self._key = f"{path}/" if path else ""
        self.where = files.describe(str(path)) if path else files.root
        document = files.read(f"{self._key}zarr.json")
        if document is None:
            raise StoreCorruptError("the array's zarr.json is missing", where=self.where, next_step=RESTORE)
        if metadata is not None:
            metadata.check(FileDigest.of(document), where=files.describe(f"{self._key}zarr.json"))
        meta = parse_array(document, where=files.describe(f"{self._key}zarr.json"))
        if meta.inner is None or len(meta.shape) != 3:
            raise StoreCorruptError("this array is not a states array", where=self.where, next_step=RESTORE)
        self._metadata, self._fingerprints = metadata, tuple(fingerprints)
        self.attributes = meta.attributes
        self.geometry = StatesGeometry.of(meta)
        self._lock = threading.Lock()
        self._shards: dict[int, _Shard] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, R, D)."""
        return self.geometry.rows, self.geometry.states, self.geometry.width

    def __len__(self) -> int:
        return self.geometry.rows

    def read_rows(self, start: int, stop: int, out: Any = None) -> np.ndarray:
        """Rows [start, stop) as uint16 [stop − start, R, D], every chunk verified.

        `out` receives them if given: a writable C-contiguous buffer of exactly their size, such as a
        numpy array, a (pinned) CPU tensor of a 2-byte dtype, or a bytearray; the result is a view of it.
        Only the inner chunks at a ragged start or end go through a buffer of one chunk.

        Raises StoreCorruptError for a damaged, missing or truncated chunk or shard, UsageError for a
        range outside the array or a buffer that does not fit.
        """
        geometry = self.geometry
        if not 0 <= start <= stop <= geometry.rows:
            raise UsageError(f"rows {start} to {stop} are not within the {geometry.rows} of this array")
        for shard in range(start // geometry.shard_rows, -(-stop // geometry.shard_rows)):
            self._shard(shard)  # bounds what zarr.json claims by real files before memory is taken
        rows = (stop - start, geometry.states, geometry.width)
        target = np.empty(rows, np.uint16) if out is None else _as_output(out, rows)
        if start == stop:
            return target
        reads = list(plan_reads(start, stop, geometry))
        flat = target.reshape(stop - start, -1).view(np.uint8)
        if self._files.path(self._key or ".") is None:
            self._read_remote(reads, flat)
        else:
            self._read_local(reads, flat)
        return target

    def fingerprint(self, shard: int) -> str:
        """SHA-256 of the stored checksums of a shard's chunks, in order: what its rows are, from 4 bytes a chunk.

        Raises StoreCorruptError for a shard that is missing or damaged.
        """
        return self._fingerprint(shard, self._shard(shard).index)

    def check(self) -> Iterator[StoreCorruptError]:
        """Read every chunk of every shard with memory for one; yield what is wrong with each.

        Of shard files that are missing at the end, only the first is named: zarr.json may claim any number.
        """
        geometry = self.geometry
        there = [int(name) for name in self._files.names(f"{self._key}c") if name.isdecimal()]
        scratch: np.ndarray | None = None
        for shard in range(min(geometry.shards, max(there, default=-1) + 2)):
            try:
                self._shard(shard)
            except StoreCorruptError as error:
                yield error
                continue
            if scratch is None:  # a shard is there, so its chunks are no larger than a real file
                scratch = np.empty((geometry.inner_rows, geometry.states, geometry.width), np.uint16)
            first = shard * geometry.shard_rows
            for start in range(first, min(first + geometry.shard_rows, geometry.rows), geometry.inner_rows):
                stop = min(start + geometry.inner_rows, geometry.rows)
                try:
                    self.read_rows(start, stop, scratch[: stop - start])
                except StoreCorruptError as error:
                    yield error

    def close(self) -> None:
        """Close the shard files, once reads that are under way are done; a later read opens them again."""
        with self._lock:
            self._shards.clear()

    def __enter__(self) -> StatesReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self._files.root, self._key, self._metadata, self._fingerprints))

    def _read_local(self, reads: Sequence[ChunkRead], flat: np.ndarray) -> None:
        scratch: np.ndarray | None = None
        size = self.geometry.chunk_bytes
        stored_crc = bytearray(CRC_BYTES)
        shards = {number: self._shard(number) for number in dict.fromkeys(read.shard for read in reads)}
        for read in reads:
            shard = shards[read.shard]
            assert shard.file is not None
            whole = read.stop - read.first == self.geometry.inner_rows
            rows = flat[read.out : read.out + read.stop - read.first]
            if whole:
                buffer = rows.reshape(-1)
            else:
                scratch = buffer = np.empty(size, np.uint8) if scratch is None else scratch
            offset = int(shard.index[read.chunk, 0])
            with local_access(shard.file.path):
                got = os.preadv(shard.file.fileno(), [buffer, stored_crc], offset)  # type: ignore[list-item]
            self._check_chunk(read, got, buffer, stored_crc)
            if not whole:
                rows[:] = buffer.reshape(self.geometry.inner_rows, -1)[read.first : read.stop]

    def _read_remote(self, reads: Sequence[ChunkRead], flat: np.ndarray) -> None:
        size = self.geometry.chunk_bytes
        for shard in dict.fromkeys(read.shard for read in reads):
            index = self._shard(shard).index
            own = [read for read in reads if read.shard == shard]
            for group in (own[i : i + REMOTE_CHUNKS] for i in range(0, len(own), REMOTE_CHUNKS)):
                starts = [int(index[read.chunk, 0]) for read in group]
                ranges = [(start, start + size + CRC_BYTES) for start in starts]
                parts = self._files.read_ranges(self._key + shard_key(shard), ranges)
                for read, part in zip(group, parts, strict=True):
                    data = memoryview(part)[:size]
                    self._check_chunk(read, len(part), data, part[size:])
                    chunk = np.frombuffer(data, np.uint8).reshape(self.geometry.inner_rows, -1)
                    flat[read.out : read.out + read.stop - read.first] = chunk[read.first : read.stop]

    def _shard(self, number: int) -> _Shard:
        """The shard's footer, read and checked once, and its open file."""
        shard = self._shards.get(number)
        if shard is None:
            with self._lock:
                shard = self._shards.get(number)
                if shard is None:
                    shard = self._shards[number] = self._load_shard(number)
        return shard

    def _load_shard(self, shard: int) -> _Shard:
        geometry, key = self.geometry, self._key + shard_key(shard)
        size = self._files.size_bytes(key)
        if size is None:
            first = shard * geometry.shard_rows
            raise self._damage(shard, f"shard file of states rows {first:,} and up is missing")
        full = geometry.shard_bytes(shard)
        truncated = self._damage(shard, f"shard file is truncated: it has {size:,} of {full:,} bytes")
        if size < geometry.index_bytes:
            raise truncated
        [footer] = self._files.read_ranges(key, [(size - geometry.index_bytes, size)])
        if crc32c(footer[:-CRC_BYTES]) != int.from_bytes(footer[-CRC_BYTES:], "little"):
            if size < full:
                raise truncated
            raise self._damage(
                shard, "the shard's index has a wrong checksum: its bytes changed after they were written"
            )
        index = np.frombuffer(footer[:-CRC_BYTES], "<u8").reshape(-1, 2)
        self._check_index(index, shard, size - geometry.index_bytes)
        if self._fingerprints and (
            shard >= len(self._fingerprints) or self._fingerprint(shard, index) != self._fingerprints[shard]
        ):
            raise self._damage(shard, "this shard file is sound and is not the one that was published here")
        path = self._files.path(key)
        return _Shard(index, None if path is None else _OpenFile(path))

    def _fingerprint(self, shard: int, index: np.ndarray) -> str:
        starts = [
            int(index[chunk, 0]) + self.geometry.chunk_bytes
            for chunk in range(self.geometry.chunks_in(shard))
        ]
        key = self._key + shard_key(shard)
        stored = self._files.read_ranges(key, [(start, start + CRC_BYTES) for start in starts])
        return hashlib.sha256(b"".join(stored)).hexdigest()

    def _check_index(self, index: np.ndarray, shard: int, data_bytes: int) -> None:
        """Every chunk that holds rows is there, has the one possible size, and lies before the footer."""
        stored = self.geometry.chunk_bytes + CRC_BYTES
        for chunk in range(self.geometry.chunks_in(shard)):
            offset, size = int(index[chunk, 0]), int(index[chunk, 1])
            row = shard * self.geometry.shard_rows + chunk * self.geometry.inner_rows
            if offset == MISSING and size == MISSING:
                what = f"inner chunk {chunk} (states rows {row:,} and up) is missing from the shard's index"
                raise self._damage(shard, what)
            if size != stored or offset + size > data_bytes:
                claimed = f"bytes {offset:,} to {offset + size:,} of {data_bytes:,}"
                raise self._damage(shard, f"inner chunk {chunk} claims {claimed}, and should have {stored:,}")

    def _check_chunk(self, read: ChunkRead, got: int, data: Any, stored_crc: bytes | bytearray) -> None:
        """`got` bytes were read for a chunk and its checksum, which must be those of `data`."""
        whole = self.geometry.chunk_bytes + CRC_BYTES
        if got != whole:
            fault = f"is truncated: {got:,} of {whole:,} bytes"
        elif crc32c(data) != int.from_bytes(stored_crc, "little"):
            fault = "has a wrong checksum: its bytes changed after they were written"
        else:
            return
        first = read.shard * self.geometry.shard_rows + read.chunk * self.geometry.inner_rows
        last = min(first + self.geometry.inner_rows, self.geometry.rows) - 1
        raise self._damage(
            read.shard, f"inner chunk {read.chunk} (states rows {first:,} to {last:,}) {fault}"
        )

    def _damage(self, shard: int, what: str) -> StoreCorruptError:
        where = self._files.describe(self._key + shard_key(shard))
        return StoreCorruptError(what, where=where, next_step=RESTORE)


def _reopen(root: str, key: str, metadata: FileDigest | None, fingerprints: Sequence[str]) -> StatesReader:
    place = {"path": key.rstrip("/"), "files": open_files(root)} if key else {"path": root}
    return StatesReader(**place, metadata=metadata, fingerprints=fingerprints)  # type: ignore[arg-type]


def _as_output(out: Any, shape: tuple[int, int, int]) -> np.ndarray:
    """`out` as a writable uint16 array of `shape` that shares its memory. Raises UsageError."""
    if hasattr(out, "data_ptr"):  # a tensor, so torch is loaded already
        import torch

        if out.device.type != "cpu" or not out.is_contiguous() or out.element_size() != 2:
            raise UsageError("a tensor to read into must be contiguous, 2-byte and in CPU memory")
        out = out.detach().view(torch.int16).numpy()
    try:
        view = memoryview(out)
    except TypeError as error:
        raise UsageError(f"cannot read into this buffer: {error}") from error
    if view.readonly or not view.c_contiguous or view.nbytes != shape[0] * shape[1] * shape[2] * 2:
        raise UsageError(
            f"cannot read rows of shape {shape} into a buffer of {view.nbytes:,} bytes "
            f"(read-only: {view.readonly}, C-contiguous: {view.c_contiguous})",
            next_step="Give a writable, C-contiguous buffer of exactly that many 2-byte values.",
        )
    if not view.nbytes:
        return np.empty(shape, np.uint16)
    return np.frombuffer(view.cast("B"), np.uint16).reshape(shape)
