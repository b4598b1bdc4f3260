"""States that a serving engine captured: one safetensors file for each request, read in blocks.

A file has one tensor, or one named `states`: [n, 3, D] with a row triple for each computed token, in bfloat16
or in another float type, which is rounded. `token_ids` [n] may stand beside it, and the metadata say whose states they
are (`states_identity`). The header is checked against the file before anything is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.recordings.states_identity import StatesIdentity, from_metadata, streams_fault
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES, first_not_finite, to_bits
from inkplex_data.memory.capture.tensor_file import (
    ITEM_BYTES,
    TensorFile,
    open_tensors,
    read_range,
    states_error,
)
from inkplex_data.problems import recording_refusal

STREAMS_CODE: Final = "recording-states-streams"
TENSOR: Final = "states"
IDS: Final = "token_ids"
BLOCK_BYTES: Final = 8 << 20
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
        """What the file says of its model, None where it says nothing; states that were rounded to fewer bits than
        bfloat16 has are marked. Raises FaultError where it says a part."""
        found = from_metadata(self.metadata)
        return None if found is None else found.dumped_as(DTYPE_NAMES[self.dtype])

    def token_ids(self) -> NDArray[np.int64] | None:
        """The ids of the tokens that the states are of, int64 [n]. Raises RecordingError for a file that cannot be read."""
        if self.ids is None:
            return None
        dtype, begin = np.dtype(ID_DTYPES[self.ids[0]]), self.ids[1]
        data = self._read(begin, self.tokens * dtype.itemsize, "its token ids")
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
        for first in range(0, self.tokens, step):
            rows = min(step, self.tokens - first)
            data = self._read(self.offset + first * row_bytes, rows * row_bytes, f"row {first}")
            bits = to_bits(data, self.dtype).reshape(rows, len(STATE_ROWS), self.width)
            bad = first_not_finite(bits)
            if bad is not None:
                raise states_error(f"the states of row {first + bad} are not finite in bfloat16", self.where)
            yield bits

    def _read(self, begin: int, count: int, what: str) -> bytes:
        stamp = (self.size, self.modified_ns)
        return read_range(self.path, begin, count, stamp=stamp, what=what, where=self.where)


def open_states_file(path: Path, *, where: str, tokens: int | None = None) -> StatesFile:
    """Check a file's header against itself and, where it is known, the request's number of computed tokens.

    `where` says which line of which recording names it. Raises RecordingError.
    """
    where = f"{where}: {path.name}"
    file = open_tensors(path, where=where)
    _check_streams(file)
    names = [name for name in file.described if name != IDS]
    name = TENSOR if TENSOR in names else next(iter(names), "")
    if name != TENSOR and len(names) != 1:
        named = ", ".join(sorted(names)[:5]) or "none"
        raise states_error(f"has {len(names)} tensors ({named}) and none named {TENSOR!r}", where)
    found = file.tensor(name)
    shape = list(found.shape)
    if len(shape) != 3 or shape[1] != len(STATE_ROWS) or shape[2] < 1 or tokens not in (None, shape[0]):
        needed = "n computed tokens need [n" if tokens is None else f"{tokens} computed tokens need [{tokens}"
        raise states_error(f"tensor {name!r} has shape {shape}; {needed}, {len(STATE_ROWS)}, width]", where)
    if found.dtype not in DTYPE_NAMES:
        raise states_error(
            f"tensor {name!r} is {found.dtype}; states are BF16, F16, F32 or eight-bit floats", where
        )
    file.check_bytes(found)
    ids = None
    if IDS in file.described:
        ids = file.tensor(IDS)
        if ids.shape != found.shape[:1] or ids.dtype not in ID_DTYPES:
            raise states_error(
                f"tensor {IDS!r} is {ids.dtype} {list(ids.shape)}; states of {shape[0]} tokens need I32 or I64 "
                f"[{shape[0]}]",
                where,
            )
        file.check_bytes(ids)
    return StatesFile(
        path,
        where,
        shape[0],
        shape[2],
        found.dtype,
        found.begin,
        file.size,
        file.modified_ns,
        file.metadata,
        None if ids is None else (ids.dtype, ids.begin),
    )


def _check_streams(file: TensorFile) -> None:
    """Raise RecordingError for streams that states do not consist of, by the names that a file gives them."""
    streams = file.metadata.get("streams")
    fault = "" if streams is None else streams_fault([name.strip() for name in streams.split(",")])
    taps = [name for name in file.described if name.startswith("aux_hidden_state")]
    if taps and not fault:
        fault = (
            f"{taps[0]!r} is a raw auxiliary tap, as SGLang takes it before the block's short convolution; it is not "
            "the completed output of its block"
        )
    if fault:
        raise recording_refusal(STREAMS_CODE, fault, file.where)
