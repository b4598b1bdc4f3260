"""States that a serving engine captured: one safetensors file for each request, read in blocks.

A file has one tensor, or one named `states`: [n, 3, D] with a row triple for each computed token, in bfloat16
or in float32, which is rounded. The header is checked against the file before anything is believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import RecordingError
from inkplex_data.faults import FaultError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.state_bits import first_not_finite, from_float32
from inkplex_data.problems import recording_refusal

CODE: Final = "recording-states-invalid"
TENSOR: Final = "states"
HEADER_BYTES: Final = 1 << 20
"""Longest header that is read; one of a single tensor has a hundred bytes."""
BLOCK_BYTES: Final = 8 << 20
ITEM_BYTES: Final = {"BF16": 2, "F32": 4}
DTYPE_NAMES: Final = {"BF16": "bfloat16", "F32": "float32"}


@dataclass(frozen=True)
class StatesFile:
    """A checked header. `tokens` and `width` are the tensor's n and D; its bytes begin at `offset`.

    `size` and `modified_ns` tell a file that was replaced in the meantime. `where` is for messages.
    """

    path: Path
    where: str
    tokens: int
    width: int
    dtype: str
    offset: int
    size: int
    modified_ns: int

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


def open_states_file(path: Path, *, tokens: int, where: str) -> StatesFile:
    """Check a file's header against itself and the request's number of computed tokens.

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
    name, dtype, shape, (begin, end) = _tensor(header, where)
    expected = [tokens, len(STATE_ROWS)]
    if len(shape) != 3 or shape[:2] != expected or shape[2] < 1:
        raise states_error(
            f"tensor {name!r} has shape {shape}; {tokens} computed tokens need [{tokens}, {len(STATE_ROWS)}, width]",
            where,
        )
    item = ITEM_BYTES.get(dtype)
    if item is None:
        raise states_error(f"tensor {name!r} is {dtype}; states are BF16 or F32", where)
    needed = shape[0] * shape[1] * shape[2] * item
    if end - begin != needed or end > size - 8 - length:
        raise states_error(
            f"tensor {name!r} needs {needed:,} bytes; its header gives it {begin:,} to {end:,} of "
            f"{size - 8 - length:,}",
            where,
        )
    return StatesFile(path, where, tokens, shape[2], dtype, 8 + length + begin, size, modified_ns)


def _tensor(header: Any, where: str) -> tuple[str, str, list[int], tuple[int, int]]:
    tensors = {} if not isinstance(header, dict) else {k: v for k, v in header.items() if k != "__metadata__"}
    name = TENSOR if TENSOR in tensors else next(iter(tensors), "")
    if name != TENSOR and len(tensors) != 1:
        named = ", ".join(sorted(tensors)[:5]) or "none"
        raise states_error(f"has {len(tensors)} tensors ({named}) and none named {TENSOR!r}", where)
    found = tensors[name]
    if isinstance(found, dict):
        shape, offsets, dtype = found.get("shape"), found.get("data_offsets"), found.get("dtype")
        if _counts(shape) and _counts(offsets) and len(offsets) == 2 and isinstance(dtype, str):
            return name, dtype, shape, (offsets[0], offsets[1])
    raise states_error(f"its header does not describe tensor {name!r}", where)


def _counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def _stamp(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


def states_error(what: str, where: str) -> RecordingError:
    """An error about a request's states."""
    return recording_refusal(CODE, what, where)
