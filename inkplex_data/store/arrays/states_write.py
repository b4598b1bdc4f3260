"""The states array [N, R, D], bfloat16 bits as uint16: streaming writer here, direct reader re-exported.

Inner chunks of 64 rows without compressor, each with its CRC32C, in Zarr v3 shards of 8,192 rows, as
zarr-python writes them (Zarr v3 specification, "sharding-indexed"). 64 rows of 3 × 4,096 are 1.5 MB:
small enough that the checksum runs over bytes which are still in the processor's cache.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from inkplex_data.errors import UsageError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.store.arrays.states_geometry import MISSING, StatesGeometry, shard_key
from inkplex_data.store.arrays.states_read import StatesReader
from inkplex_data.store.arrays.zarr_metadata import CRC_BYTES, states_document
from inkplex_data.store.documents import dump_json
from inkplex_data.store.format import STATES_INNER_ROWS, STATES_SHARD_ROWS

__all__ = ["StatesReader", "StatesWriter", "as_bits"]


def as_bits(states: Any) -> np.ndarray:
    """`states` as C-contiguous uint16: bfloat16 bits, shared where the layout allows.

    Takes uint16 arrays, 2-byte `bfloat16` arrays (ml_dtypes) and torch bfloat16 tensors.
    Raises UsageError for any other type: float32 values would be stored as other numbers.
    """
    if hasattr(states, "data_ptr"):  # a tensor, so torch is loaded already
        import torch

        if states.dtype not in (torch.bfloat16, torch.uint16):
            raise UsageError(f"states must be bfloat16, not {states.dtype}", next_step="Cast them first.")
        states = states.detach().cpu().contiguous().view(torch.int16).numpy().view(np.uint16)
    array = np.asarray(states)
    if array.dtype.name == "bfloat16":
        array = np.ascontiguousarray(array).view(np.uint16)
    if array.dtype != np.uint16:
        raise UsageError(
            f"states must be bfloat16 bits (uint16), not {array.dtype}", next_step="Cast them first."
        )
    return np.ascontiguousarray(array)


class StatesWriter:
    """Writes one states array as a stream: `append` any number of rows, then `close`.

    Holds less than one inner chunk. Each shard is written beside its place and renamed when full;
    `zarr.json` comes last, so an array without it was not finished. Chunks of zeros are written like any
    other. Leaving the `with` block by an exception removes the unfinished files.
    """

    def __init__(
        self,
        path: Path,
        width: int,
        *,
        inner_rows: int = STATES_INNER_ROWS,
        shard_rows: int = STATES_SHARD_ROWS,
    ) -> None:
        """`path` is the array's folder; a token has the rows that `grid.STATE_ROWS` names."""
        rows = len(STATE_ROWS)
        if width < 1 or inner_rows < 1 or shard_rows % inner_rows:
            raise UsageError(
                f"no states array has {rows} × {width} values in {inner_rows} of {shard_rows} rows"
            )
        self.path = Path(path)
        self.rows_written = 0
        self._attributes = {"logical_dtype": "bfloat16", "rows": list(STATE_ROWS)}
        self._geometry = StatesGeometry(0, rows, width, inner_rows, shard_rows)
        self._pending = np.zeros((inner_rows, rows, width), np.uint16)
        self._pending_rows = 0
        self._index = np.full((self._geometry.chunks_per_shard, 2), MISSING, "<u8")
        self._chunks = 0  # in the open shard
        self._shard = 0
        self._file: int | None = None

    def append(self, states: Any) -> None:
        """Append rows [n, R, D] of bfloat16 bits (uint16, or a bfloat16 tensor); n may be anything.

        Raises UsageError for another shape or dtype, OSError when the disk is full.
        """
        array = as_bits(states)
        geometry = self._geometry
        if array.ndim != 3 or array.shape[1:] != (geometry.states, geometry.width):
            raise UsageError(
                f"states of shape {array.shape} do not fit rows of ({geometry.states}, {geometry.width})"
            )
        taken = 0
        if self._pending_rows:
            taken = min(geometry.inner_rows - self._pending_rows, len(array))
            self._pending[self._pending_rows : self._pending_rows + taken] = array[:taken]
            self._pending_rows += taken
            if self._pending_rows == geometry.inner_rows:
                self._write_chunk(self._pending)
                self._pending_rows = 0
        while len(array) - taken >= geometry.inner_rows:
            self._write_chunk(array[taken : taken + geometry.inner_rows])
            taken += geometry.inner_rows
        if taken < len(array):
            self._pending_rows = len(array) - taken
            self._pending[: self._pending_rows] = array[taken:]
        self.rows_written += len(array)

    def close(self) -> None:
        """Write the last, zero-padded chunk, the last footer, and `zarr.json`."""
        if self._pending_rows:
            self._pending[self._pending_rows :] = 0
            self._write_chunk(self._pending)
            self._pending_rows = 0
        if self._file is not None:
            self._finish_shard()
        geometry = self._geometry
        document = states_document(
            [self.rows_written, geometry.states, geometry.width],
            inner_rows=geometry.inner_rows,
            shard_rows=geometry.shard_rows,
            attributes=self._attributes,
        )
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / ".tmp-zarr.json"
        temporary.write_bytes(dump_json(document))
        temporary.replace(self.path / "zarr.json")

    def abort(self) -> None:
        """Close and remove the unfinished shard; finished ones stay for whoever owns the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> StatesWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    @property
    def _target(self) -> Path:
        return self.path / shard_key(self._shard)

    @property
    def _temporary(self) -> Path:
        return self._target.with_name(".tmp-0")

    def _write_chunk(self, chunk: np.ndarray) -> None:
        if self._file is None:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        data = chunk.reshape(-1).view(np.uint8).data
        stored = len(data) + CRC_BYTES
        _write_all(self._file, [data, memoryview(crc32c(data).to_bytes(CRC_BYTES, "little"))])
        self._index[self._chunks] = (self._chunks * stored, stored)
        self._chunks += 1
        if self._chunks == self._geometry.chunks_per_shard:
            self._finish_shard()

    def _finish_shard(self) -> None:
        assert self._file is not None
        index = self._index.tobytes()
        _write_all(self._file, [memoryview(index), memoryview(crc32c(index).to_bytes(CRC_BYTES, "little"))])
        os.close(self._file)
        self._file = None
        self._temporary.replace(self._target)
        self._index[:] = MISSING
        self._chunks = 0
        self._shard += 1


def _write_all(file: int, views: list[memoryview]) -> None:
    """writev until everything is out: one call may stop early, on a signal or a full disk."""
    while views:
        written = os.writev(file, views)
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views and written:
            views[0] = views[0][written:]
