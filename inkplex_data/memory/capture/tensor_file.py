"""The header of a safetensors file, checked against the file before anything in it is believed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, TypeGuard

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import RecordingError
from inkplex_data.faults import FaultError
from inkplex_data.problems import recording_refusal
from inkplex_data.reading import open_file

CODE: Final = "recording-states-invalid"
HEADER_BYTES: Final = 1 << 20
"""Longest header of a file of states; one of a single tensor has a hundred bytes."""
ITEM_BYTES: Final = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E5M2": 1, "I32": 4, "I64": 8}


@dataclass(frozen=True)
class Tensor:
    """A tensor as its header describes it; its bytes are [begin, end) of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class TensorFile:
    """A header. `size` and `modified_ns` tell a file that was replaced in the meantime; `where` is for messages."""

    path: Path
    where: str
    size: int
    modified_ns: int
    data: int
    described: dict[str, Any]
    metadata: dict[str, str] = field(default_factory=dict)

    def tensor(self, name: str) -> Tensor:
        """What the header says of a tensor. Raises RecordingError where that is nothing, or does not fit the file."""
        found = self.described.get(name)
        if isinstance(found, dict):
            shape, offsets, dtype = found.get("shape"), found.get("data_offsets"), found.get("dtype")
            if _counts(shape) and _counts(offsets) and len(offsets) == 2 and isinstance(dtype, str):
                return Tensor(
                    name, dtype, tuple(shape), *(self.data + offset for offset in (offsets[0], offsets[1]))
                )
        raise states_error(f"its header does not describe tensor {name!r}", self.where)

    def check_bytes(self, tensor: Tensor) -> None:
        """Raise RecordingError where a tensor has other bytes than its shape and dtype need."""
        needed = prod(tensor.shape) * ITEM_BYTES[tensor.dtype]
        if tensor.end - tensor.begin != needed or tensor.end > self.size:
            begin, end, room = (at - self.data for at in (tensor.begin, tensor.end, self.size))
            raise states_error(
                f"tensor {tensor.name!r} needs {needed:,} bytes; its header gives it {begin:,} to {end:,} of {room:,}",
                self.where,
            )

    def read(self, begin: int, count: int, what: str) -> bytes:
        """As `read_range`."""
        return read_range(
            self.path, begin, count, stamp=(self.size, self.modified_ns), what=what, where=self.where
        )


def read_range(path: Path, begin: int, count: int, *, stamp: tuple[int, int], what: str, where: str) -> bytes:
    """`count` bytes from `begin` on. Raises RecordingError for a file that has another stamp, or ends within `what`."""
    try:
        with open_file(path) as file:
            if stamp_of(file.fileno()) != stamp:
                raise states_error(
                    "the file changed after it was checked; start again when it is complete", where
                )
            file.seek(begin)
            data = file.read(count)
    except OSError as error:
        raise states_error(f"the file cannot be read ({error.strerror or error})", where) from error
    if len(data) != count:
        raise states_error(f"the file ends within {what}", where)
    return data


def open_tensors(path: Path, *, where: str, most_bytes: int = HEADER_BYTES) -> TensorFile:
    """Read a file's header of at most `most_bytes`. Raises RecordingError for a file that is no safetensors."""
    try:
        with open_file(path) as file:
            size, modified_ns = stamp_of(file.fileno())
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(most_bytes, size - 8):
                raise states_error(f"is not a safetensors file: {size:,} bytes, header of {length:,}", where)
            header = parse_json(file.read(length))
    except OSError as error:
        raise states_error(f"cannot be read ({error.strerror or error})", where) from error
    except FaultError as error:
        raise states_error(f"is not a safetensors file: its header {error}", where) from error
    described = dict(header) if isinstance(header, dict) else {}
    found = described.pop("__metadata__", None)
    metadata = {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    return TensorFile(path, where, size, modified_ns, 8 + length, described, metadata)


def _counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def stamp_of(descriptor: int) -> tuple[int, int]:
    """Size and time of change of an open file."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


def states_error(what: str, where: str) -> RecordingError:
    """An error about a request's states."""
    return recording_refusal(CODE, what, where)
