"""Tensors of a CTranslate2 `model.bin`, read as data: names, shapes and numbers, no code of the file is run.

Layout of binary version 6, little-endian: u32 version, name, u32 revision, u32 number of variables; each one a
name, u8 rank, u32 sizes, u8 type, u32 bytes, the bytes; then u32 number of aliases, each a pair of names. A
name is a u16 length that counts the closing zero byte.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import CheckpointError

VERSION: Final = 6
DTYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
MAX_VARIABLES: Final = 100_000
MAX_RANK: Final = 8


def read_variables(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Every variable by name; an alias has the array of what it stands for.

    Raises CheckpointError where the file is no such model, is of another version or ends too early.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        version = _number(file, "I", path)
        if version != VERSION:
            raise CheckpointError(f"CTranslate2 binary version {version}, not {VERSION}", where=str(path))
        _name(file, path)
        _number(file, "I", path)
        count = _number(file, "I", path)
        if count > MAX_VARIABLES:
            raise CheckpointError(f"claims to hold {count} variables", where=str(path))
        variables = dict(_variable(file, size, path) for _ in range(count))
        for _ in range(min(_number(file, "I", path), MAX_VARIABLES)):
            alias, target = _name(file, path), _name(file, path)
            if target not in variables:
                raise CheckpointError(
                    f"alias {alias!r} stands for {target!r}, which is missing", where=str(path)
                )
            variables[alias] = variables[target]
    return variables


def _variable(file: BinaryIO, size: int, path: Path) -> tuple[str, npt.NDArray[Any]]:
    name = _name(file, path)
    rank = _number(file, "B", path)
    if rank > MAX_RANK:
        raise CheckpointError(f"variable {name!r} claims {rank} dimensions", where=str(path))
    shape = tuple(_number(file, "I", path) for _ in range(rank))
    kind, count_bytes = _number(file, "B", path), _number(file, "I", path)
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise CheckpointError(f"variable {name!r} is of unknown type {kind}", where=str(path))
    expected = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if count_bytes != expected or file.tell() + count_bytes > size:
        raise CheckpointError(
            f"variable {name!r} claims {count_bytes} bytes for shape {shape}", where=str(path)
        )
    return name, np.frombuffer(file.read(count_bytes), dtype).reshape(shape)


def _number(file: BinaryIO, kind: str, path: Path) -> int:
    data = file.read(struct.calcsize("<" + kind))
    if len(data) != struct.calcsize("<" + kind):
        raise CheckpointError("the file ends too early", where=str(path))
    return int(struct.unpack("<" + kind, data)[0])


def _name(file: BinaryIO, path: Path) -> str:
    length = _number(file, "H", path)
    data = file.read(length)
    if len(data) != length or not data.endswith(b"\0"):
        raise CheckpointError("a name does not end where it says", where=str(path))
    return data[:-1].decode("utf-8", errors="replace")
