"""States that a serving engine captured: one safetensors file for each request, read in blocks.

A file has one tensor, or one named `states`: [n, 3, D] with a row triple for each computed token, in bfloat16
or in float32, which is rounded. `token_ids` [n] may stand beside it, and the metadata say whose states they are
(`states_identity`). The header is checked against the file before anything is believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.recordings.states_identity import StatesIdentity, from_metadata, streams_fault
from inkplex_data.errors import RecordingError
from inkplex_data.faults import FaultError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.state_bits import first_not_finite, from_float32
from inkplex_data.problems import recording_refusal

CODE: Final = "recording-states-invalid"
STREAMS_CODE: Final = "recording-states-streams"
TENSOR: Final = "states"
IDS: Final = "token_ids"
HEADER_BYTES: Final = 1 << 20
"""Longest header that is read; one of a single tensor has a hundred bytes."""
BLOCK_BYTES: Final = 8 << 20
ITEM_BYTES: Final = {"BF16": 2, "F32": 4}
DTYPE_NAMES: Final = {"BF16": "bfloat16", "F32": "float32"}
ID_DTYPES: Final = {"I32": "<i4", "I64": "<i8"}


@dataclass(frozen=True)
class StatesFile:
    """A checked header. `tokens` and `width` are the tensor's n and D; its bytes begin at `offset`.

    `size` and `modified_ns` tell a file that was replaced in the meantime. `where` is for messages. `metadata` is what
    the header says beside the tensors; `ids`: dtype and first byte of the token ids, None where the file has none.
    """

    path: Path
    where: str
    tokens: int
    width: int
    dtype: str
    offset: int
    size: int
    modified_ns: int
    metadata: dict[str, str] = field(default_factory=dict)
    ids: tuple[str, int] | None = None

    @property
    def request(self) -> int | None:
        """The request that the file says its states are of; None where it says none."""
        text = self.metadata.get("request", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else None

    @property
    def identity(self) -> StatesIdentity | None:
        """What the file says of its model, None where it says nothing. Raises FaultError where it says a part."""
        return from_metadata(self.metadata)

    def token_ids(self) -> NDArray[np.int64] | None:
        """The ids of the tokens that the states are of, int64 [n]. Raises RecordingError for a file that cannot be read."""
        if self.ids is None:
            return None
        dtype, begin = np.dtype(ID_DTYPES[self.ids[0]]), self.ids[1]
        try:
            with self.path.open("rb") as file:
                file.seek(begin)
                data = file.read(self.tokens * dtype.itemsize)
        except OSError as error:
            raise self._error(f"the file cannot be read ({error.strerror or error})") from error
        if len(data) != self.tokens * dtype.itemsize:
            raise self._error("the file ends within its token ids")
        return np.frombuffer(data, dtype).astype(np.int64)

    @property
    def stamp(self) -> tuple[str, int, int]:
        """Identity that a rerun can afford to check."""
        return (str(self.path), self.size, self.modified_ns)

    def blocks(self) -> Iterator[NDArray[np.uint16]]:
        """The states in order, some rows at a time: bfloat16 bits, uint16 [k, 3, D].

        Raises RecordingError for values that are not finite, and for a file that changed.
        """
        row_bytes = len(STATE_ROWS) * self.width * ITEM_BYTES[self.dtype]
        step = max(1, BLOCK_BYTES // row_bytes)
        try:
            with self.path.open("rb") as file:
                if _stamp(file.fileno()) != (self.size, self.modified_ns):
                    raise self._error(
                        "the file changed after it was checked; start again when it is complete"
                    )
                for first in range(0, self.tokens, step):
                    rows = min(step, self.tokens - first)
                    file.seek(self.offset + first * row_bytes)
                    yield self._block(file.read(rows * row_bytes), first, rows)
        except OSError as error:
            raise self._error(f"the file cannot be read ({error.strerror or error})") from error

    def _block(self, data: bytes, first: int, rows: int) -> NDArray[np.uint16]:
        shape = (rows, len(STATE_ROWS), self.width)
        if len(data) != rows * shape[1] * shape[2] * ITEM_BYTES[self.dtype]:
            raise self._error(f"the file ends within row {first}")
        if self.dtype == "F32":
            bits = from_float32(np.frombuffer(data, "<f4").reshape(shape))
        else:
            bits = np.frombuffer(data, "<u2").reshape(shape)
        bad = first_not_finite(bits)
        if bad is not None:
            raise self._error(f"the states of row {first + bad} are not finite in bfloat16")
        return bits

    def _error(self, what: str) -> RecordingError:
        return states_error(what, self.where)


def open_states_file(path: Path, *, where: str, tokens: int | None = None) -> StatesFile:
    """Check a file's header against itself and, where it is known, the request's number of computed tokens.

    `where` says which line of which recording names it. Raises RecordingError.
    """
    where = f"{where}: {path.name}"
    try:
        with path.open("rb") as file:
            size, modified_ns = _stamp(file.fileno())
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(HEADER_BYTES, size - 8):
                raise states_error(f"is not a safetensors file: {size:,} bytes, header of {length:,}", where)
            header = parse_json(file.read(length))
    except OSError as error:
        raise states_error(f"cannot be read ({error.strerror or error})", where) from error
    except FaultError as error:
        raise states_error(f"is not a safetensors file: its header {error}", where) from error
    tensors = {} if not isinstance(header, dict) else dict(header)
    metadata = _metadata(tensors.pop("__metadata__", None), where)
    ids = tensors.pop(IDS, None)
    name = TENSOR if TENSOR in tensors else next(iter(tensors), "")
    if name != TENSOR and len(tensors) != 1:
        named = ", ".join(sorted(tensors)[:5]) or "none"
        raise states_error(f"has {len(tensors)} tensors ({named}) and none named {TENSOR!r}", where)
    dtype, shape, offsets = _described(name, tensors[name], where)
    if len(shape) != 3 or shape[1] != len(STATE_ROWS) or shape[2] < 1 or tokens not in (None, shape[0]):
        needed = "n computed tokens need [n" if tokens is None else f"{tokens} computed tokens need [{tokens}"
        raise states_error(f"tensor {name!r} has shape {shape}; {needed}, {len(STATE_ROWS)}, width]", where)
    if dtype not in ITEM_BYTES:
        raise states_error(f"tensor {name!r} is {dtype}; states are BF16 or F32", where)
    data = 8 + length
    _check_bytes(name, prod(shape) * ITEM_BYTES[dtype], offsets, size - data, where)
    found = StatesFile(path, where, shape[0], shape[2], dtype, data + offsets[0], size, modified_ns, metadata)
    if ids is None:
        return found
    dtype, shape, offsets = _described(IDS, ids, where)
    if shape != [found.tokens] or dtype not in ID_DTYPES:
        raise states_error(
            f"tensor {IDS!r} is {dtype} {shape}; states of {found.tokens} tokens need I32 or I64 [{found.tokens}]",
            where,
        )
    _check_bytes(IDS, shape[0] * np.dtype(ID_DTYPES[dtype]).itemsize, offsets, size - data, where)
    return replace(found, ids=(dtype, data + offsets[0]))


def _metadata(found: Any, where: str) -> dict[str, str]:
    """What the header says beside its tensors. Raises RecordingError for streams that states do not consist of."""
    metadata = {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    streams = metadata.get("streams")
    fault = "" if streams is None else streams_fault([name.strip() for name in streams.split(",")])
    if fault:
        raise recording_refusal(STREAMS_CODE, fault, where)
    return metadata


def _described(name: str, found: Any, where: str) -> tuple[str, list[int], tuple[int, int]]:
    """Dtype, shape and bytes [begin, end) of a tensor, as the header has them."""
    if isinstance(found, dict):
        shape, offsets, dtype = found.get("shape"), found.get("data_offsets"), found.get("dtype")
        if _counts(shape) and _counts(offsets) and len(offsets) == 2 and isinstance(dtype, str):
            return dtype, shape, (offsets[0], offsets[1])
    raise states_error(f"its header does not describe tensor {name!r}", where)


def _check_bytes(name: str, needed: int, offsets: tuple[int, int], room: int, where: str) -> None:
    begin, end = offsets
    if end - begin != needed or end > room:
        raise states_error(
            f"tensor {name!r} needs {needed:,} bytes; its header gives it {begin:,} to {end:,} of {room:,}",
            where,
        )


def _counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def _stamp(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


def states_error(what: str, where: str) -> RecordingError:
    """An error about a request's states."""
    return recording_refusal(CODE, what, where)
