"""The `zarr.json` of the store's arrays: written as zarr-python 3 spells it, parsed strictly. No I/O.

Two layouts only (Zarr v3 specification, "sharding-indexed" and "crc32c" codecs):
frame arrays, chunk = bytes, zstd, crc32c; and states, a shard of inner chunks = bytes, crc32c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inkplex_data.errors import StoreCorruptError
from inkplex_data.store.documents import parse_json

ZSTD_LEVEL = 3
CRC_BYTES = 4
"""A chunk or index is followed by its CRC32C, little-endian."""
_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_BYTES_8 = {"name": "bytes"}
_CRC32C = {"name": "crc32c"}
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("uint8", "int8", "uint16", "int16", "int32", "float16", "float32")
}
"""What arrays may hold, little-endian."""

GROUP = {"attributes": {}, "zarr_format": 3, "node_type": "group"}


@dataclass(frozen=True)
class ArrayMeta:
    """What a reader needs: `chunk` is one file's shape, `inner` a shard's inner chunk (None: no shards)."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]
    inner: tuple[int, ...] | None
    attributes: Mapping[str, Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, an index of the first axis."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def _array_document(
    shape: Sequence[int], dtype: str, chunk: Sequence[int], codecs: list[Any], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": dict(attributes),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def frame_array_document(shape: Sequence[int], dtype: str, chunk_rows: int) -> dict[str, Any]:
    """Metadata of an array [F, …] in chunks of `chunk_rows` rows, zstd under a crc32c checksum."""
    codecs = [
        _BYTES_8 if DTYPES[dtype].itemsize == 1 else _BYTES,
        {"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": False}},
        _CRC32C,
    ]
    return _array_document(shape, dtype, [chunk_rows, *shape[1:]], codecs, {})


def states_document(
    shape: Sequence[int], *, inner_rows: int, shard_rows: int, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Metadata of a states array [N, R, D]: shards of uncompressed inner chunks, each with its crc32c."""
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [inner_rows, *shape[1:]],
            "codecs": [_BYTES, _CRC32C],
            "index_codecs": [_BYTES, _CRC32C],
            "index_location": "end",
        },
    }
    return _array_document(shape, "uint16", [shard_rows, *shape[1:]], [sharding], attributes)


def parse_array(data: bytes, *, where: str) -> ArrayMeta:
    """Parse a `zarr.json` of one of the two layouts.

    Raises StoreCorruptError for anything that is not exactly one of them: another codec, byte order,
    fill value, key encoding or chunk shape would silently give other numbers.
    """
    document = parse_json(data, where=where)

    def wrong(field: str, value: object) -> StoreCorruptError:
        return StoreCorruptError(
            f"array metadata field {field!r} is not what this store format writes (got {value!r:.200})",
            where=where,
            next_step="Rewrite the array with the codecs in docs/reference/store.md.",
        )

    def expect(field: str, *allowed: object) -> None:
        if document.get(field) not in allowed:
            raise wrong(field, document.get(field))

    expect("zarr_format", 3)
    expect("node_type", "array")
    expect("fill_value", 0)
    expect("storage_transformers", [], None)
    expect(
        "chunk_key_encoding",
        {"name": "default", "configuration": {"separator": "/"}},
        {"name": "default"},
        "default",
    )
    dtype = DTYPES.get(str(document.get("data_type")))
    if dtype is None:
        raise wrong("data_type", document.get("data_type"))
    shape = _shape(document.get("shape"))
    grid = document.get("chunk_grid")
    chunk = _chunk_shape(grid)
    if not shape or not chunk or 0 in chunk or 0 in shape[1:] or chunk[1:] != shape[1:]:
        raise wrong("chunk_grid", [document.get("shape"), grid])
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or not all(isinstance(codec, dict) for codec in codecs):
        raise wrong("codecs", codecs)
    inner = None
    if len(codecs) == 1:
        inner = _inner_shape(codecs[0], chunk)
        if inner is None or dtype != DTYPES["uint16"]:
            raise wrong("codecs", codecs)
    elif not _is_frame_chain(codecs, dtype):
        raise wrong("codecs", codecs)
    attributes = document.get("attributes")
    return ArrayMeta(shape, dtype, chunk, inner, attributes if isinstance(attributes, dict) else {})


def _shape(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**62 for n in value):
        return None
    return tuple(value)


def _chunk_shape(grid: object) -> tuple[int, ...] | None:
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        return None
    configuration = grid.get("configuration")
    return _shape(configuration.get("chunk_shape")) if isinstance(configuration, dict) else None


def _named(codec: Mapping[str, Any], name: str) -> bool:
    return codec.get("name") == name


def _is_bytes(codec: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    configuration = codec.get("configuration") or {}
    little = configuration.get("endian") == "little" or dtype.itemsize == 1
    return _named(codec, "bytes") and little


def _is_frame_chain(codecs: Sequence[Mapping[str, Any]], dtype: np.dtype[Any]) -> bool:
    return (
        len(codecs) == 3
        and _is_bytes(codecs[0], dtype)
        and _named(codecs[1], "zstd")
        and _named(codecs[2], "crc32c")
    )


def _inner_shape(codec: Mapping[str, Any], chunk: tuple[int, ...]) -> tuple[int, ...] | None:
    configuration = codec.get("configuration")
    if not _named(codec, "sharding_indexed") or not isinstance(configuration, dict):
        return None
    inner = _shape(configuration.get("chunk_shape"))
    two = np.dtype("<u2")
    for chain in (configuration.get("codecs"), configuration.get("index_codecs")):
        if not isinstance(chain, list) or len(chain) != 2 or not all(isinstance(c, dict) for c in chain):
            return None
        if not _is_bytes(chain[0], two) or not _named(chain[1], "crc32c"):
            return None
    # The specification's default place of the index is the end.
    if configuration.get("index_location", "end") != "end":
        return None
    if not inner or inner[1:] != chunk[1:] or inner[0] == 0 or chunk[0] % inner[0]:
        return None
    return inner
