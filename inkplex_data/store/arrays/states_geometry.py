"""Where the rows of a states array lie: shards, inner chunks, the index footer. Pure arithmetic, no I/O.

A shard file is its inner chunks, each followed by its CRC32C, then the index: (offset, size) as
little-endian uint64 for every inner chunk, and the index's own CRC32C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inkplex_data.store.arrays.zarr_metadata import CRC_BYTES, ArrayMeta

INDEX_ENTRY_BYTES = 16
MISSING = 2**64 - 1
"""Both fields of an index entry whose chunk was never written."""


@dataclass(frozen=True)
class StatesGeometry:
    """Sizes of one states array [rows, states, width] of 2-byte values."""

    rows: int
    states: int
    width: int
    inner_rows: int
    shard_rows: int

    @classmethod
    def of(cls, meta: ArrayMeta) -> StatesGeometry:
        """Geometry of parsed metadata, which must be that of a sharded array of three axes."""
        if meta.inner is None or len(meta.shape) != 3:
            raise ValueError("not a states array")
        rows, states, width = meta.shape
        return cls(rows, states, width, meta.inner[0], meta.chunk[0])

    @property
    def row_bytes(self) -> int:
        return self.states * self.width * 2

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one inner chunk without its CRC."""
        return self.inner_rows * self.row_bytes

    @property
    def chunks_per_shard(self) -> int:
        return self.shard_rows // self.inner_rows

    @property
    def index_bytes(self) -> int:
        """Bytes of a shard's footer with its CRC."""
        return self.chunks_per_shard * INDEX_ENTRY_BYTES + CRC_BYTES

    @property
    def shards(self) -> int:
        return -(-self.rows // self.shard_rows)

    def chunks_in(self, shard: int) -> int:
        """Inner chunks of `shard` that hold rows of the array."""
        rows = min(self.rows - shard * self.shard_rows, self.shard_rows)
        return -(-rows // self.inner_rows)

    def shard_bytes(self, shard: int) -> int:
        """Size of a shard file with every chunk present, as this package and zarr-python write it."""
        return self.chunks_in(shard) * (self.chunk_bytes + CRC_BYTES) + self.index_bytes


@dataclass(frozen=True)
class ChunkRead:
    """Rows [first, stop) of inner chunk `chunk` of `shard` go to output rows [out, out + stop − first)."""

    shard: int
    chunk: int
    first: int
    stop: int
    out: int


def shard_key(shard: int) -> str:
    """Zarr's key of a shard file, relative to the array."""
    return f"c/{shard}/0/0"


def plan_reads(start: int, stop: int, geometry: StatesGeometry) -> Iterator[ChunkRead]:
    """The inner chunks that hold rows [start, stop), in order."""
    row = start
    while row < stop:
        shard, within = divmod(row, geometry.shard_rows)
        chunk, first = divmod(within, geometry.inner_rows)
        rows = min(geometry.inner_rows - first, stop - row)
        yield ChunkRead(shard, chunk, first, first + rows, row - start)
        row += rows
