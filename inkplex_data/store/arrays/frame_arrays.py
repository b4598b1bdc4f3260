"""Arrays along the frames of a shard's calls, those of `store/frame_streams.py`. Chunks of 4,096 frames.

A chunk file is its values, zstd-compressed, then the CRC32C of the compressed bytes. Every chunk is
written, zeros too, so one that is missing is damage and is reported as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.store.arrays.zarr_metadata import (
    CRC_BYTES,
    DTYPES,
    GROUP,
    ZSTD_LEVEL,
    frame_array_document,
    parse_array,
)
from inkplex_data.store.digests import FileDigest
from inkplex_data.store.documents import dump_json
from inkplex_data.store.files import RESTORE, Files
from inkplex_data.store.format import FRAME_CHUNK


def chunk_key(array: str, chunk: int, ndim: int) -> str:
    """Zarr's key of one chunk file, relative to the group."""
    return "/".join([array, "c", str(chunk), *["0"] * (ndim - 1)])


class FrameArraysWriter:
    """Writes several arrays that share the frame axis, holding one chunk of each."""

    def __init__(self, folder: Path, arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        """`folder` is the Zarr group; `arrays` gives name → (dtype, shape of one frame).

        Raises UsageError for a dtype that is not one of `zarr_metadata.DTYPES`: no reader would take it.
        """
        for name, (dtype, _) in arrays.items():
            if dtype not in DTYPES:
                raise UsageError(
                    f"array {name!r} cannot hold {dtype}", next_step=f"It can hold {', '.join(DTYPES)}."
                )
        self.frames = 0
        self._folder = folder
        self._arrays = dict(arrays)
        self._buffers = {
            name: np.zeros((FRAME_CHUNK, *shape), dtype) for name, (dtype, shape) in self._arrays.items()
        }
        self._codec = pa.Codec("zstd", compression_level=ZSTD_LEVEL)

    def append(self, **values: np.ndarray) -> None:
        """Append the same number of frames to every array. Raises UsageError for another shape or dtype."""
        if values.keys() != self._arrays.keys():
            raise UsageError(f"frame arrays {sorted(values)} given, {sorted(self._arrays)} expected")
        count = len(next(iter(values.values())))
        for name, value in values.items():
            dtype, shape = self._arrays[name]
            if value.dtype != dtype or value.shape != (count, *shape):
                raise UsageError(
                    f"{name} must be {dtype} {[count, *shape]}, not {value.dtype} {list(value.shape)}"
                )
        done = 0
        while done < count:
            at = self.frames % FRAME_CHUNK
            take = min(FRAME_CHUNK - at, count - done)
            for name, value in values.items():
                self._buffers[name][at : at + take] = value[done : done + take]
            done += take
            self.frames += take
            if self.frames % FRAME_CHUNK == 0:
                self._flush(self.frames // FRAME_CHUNK - 1)

    def close(self) -> None:
        """Write the last, zero-padded chunks and the metadata of every array and of the group."""
        if rest := self.frames % FRAME_CHUNK:
            for buffer in self._buffers.values():
                buffer[rest:] = 0
            self._flush(self.frames // FRAME_CHUNK)
        for name, (dtype, shape) in self._arrays.items():
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True)
            document = frame_array_document([self.frames, *shape], dtype, FRAME_CHUNK)
            (folder / "zarr.json").write_bytes(dump_json(document))
        write_group(self._folder)

    def _flush(self, chunk: int) -> None:
        for name, buffer in self._buffers.items():
            path = self._folder / chunk_key(name, chunk, buffer.ndim)
            path.parent.mkdir(parents=True, exist_ok=True)
            data: bytes = self._codec.compress(buffer.tobytes(), asbytes=True)
            path.write_bytes(data + crc32c(data).to_bytes(CRC_BYTES, "little"))


def write_group(folder: Path) -> None:
    """Make `folder` a Zarr group."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zarr.json").write_bytes(dump_json(GROUP))


class FrameArrayReader:
    """Reads frame ranges of one array, fetching only the chunks that hold them, each verified."""

    def __init__(self, files: Files, key: str, *, digests: Mapping[str, FileDigest] | None = None) -> None:
        """`digests` are those that the files below `key` were published with, by their key: each file is compared
        when it is first read, so that a sound chunk of another array is not taken for one of this.

        Raises StoreCorruptError if the array's metadata is missing, another's or not of this format.
        """
        self._files, self._key = files, key
        self._digests, self._compared = digests, set[str]()
        document = self._read("zarr.json", "the array's metadata is missing")
        meta = parse_array(document, where=files.describe(f"{key}/zarr.json"))
        # Our own chunk size: a claimed one would set how much memory a chunk may take.
        if meta.inner is not None or meta.chunk[0] != FRAME_CHUNK or meta.row_bytes > 1024:
            raise self._corrupt("zarr.json", f"chunks of {meta.chunk} are not those of a frame array")
        self.shape, self.dtype = meta.shape, meta.dtype
        self._chunk_shape = meta.chunk
        self._chunk_bytes = FRAME_CHUNK * meta.row_bytes
        self._codec = pa.Codec("zstd")

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Frames [start, stop), [stop − start, …].

        Raises StoreCorruptError for a missing, damaged or truncated chunk, and for frames that the array
        does not have.
        """
        if not 0 <= start <= stop <= len(self):
            raise self._corrupt("zarr.json", f"the array has {len(self):,} frames, not {start:,} to {stop:,}")
        if start == stop:
            return np.empty((0, *self.shape[1:]), self.dtype)
        parts = []
        for chunk in range(start // FRAME_CHUNK, -(-stop // FRAME_CHUNK)):
            first = chunk * FRAME_CHUNK
            parts.append(self.chunk(chunk)[max(start - first, 0) : stop - first])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def chunk(self, number: int) -> np.ndarray:
        """One whole chunk, [4096, …], with the padding of the last one."""
        name = chunk_key("", number, len(self.shape)).lstrip("/")
        span = f"frames {number * FRAME_CHUNK:,} to {min((number + 1) * FRAME_CHUNK, len(self)) - 1:,}"
        data = self._read(name, f"the chunk with {span} is missing")
        body = memoryview(data)[:-CRC_BYTES]
        if len(data) <= CRC_BYTES or crc32c(body) != int.from_bytes(data[-CRC_BYTES:], "little"):
            raise self._corrupt(name, f"the chunk with {span} has a wrong checksum: its bytes changed")
        try:
            values = self._codec.decompress(body, decompressed_size=self._chunk_bytes, asbytes=True)
        except (OSError, pa.ArrowException, MemoryError) as error:
            raise self._corrupt(name, f"the chunk with {span} does not decompress: {error}") from error
        if len(values) != self._chunk_bytes:
            raise self._corrupt(name, f"the chunk with {span} has {len(values):,} bytes of values")
        array: np.ndarray[Any, Any] = np.frombuffer(values, self.dtype).reshape(self._chunk_shape)
        return array

    def _read(self, name: str, missing: str) -> bytes:
        """A file of the array, which is the one that was published."""
        key = f"{self._key}/{name}"
        data = self._files.read(key)
        if data is None:
            raise self._corrupt(name, missing)
        if self._digests is not None and name not in self._compared:
            if key not in self._digests:
                raise self._corrupt(name, "shard.json lists no such file")
            self._digests[key].check(FileDigest.of(data), where=self._files.describe(key))
            self._compared.add(name)
        return data

    def _corrupt(self, name: str, what: str) -> StoreCorruptError:
        return StoreCorruptError(what, where=self._files.describe(f"{self._key}/{name}"), next_step=RESTORE)
