"""What vLLM's hidden-state connector writes: one safetensors file a request, of its whole context.

`hidden_states` [n, layers, D] stand beside `token_ids` [n] (vLLM 0.32, `ExampleHiddenStatesConnector` with the speculative
method `extract_hidden_states`). Layer id k is the residual stream after block k − 1, before any norm, and layers lie in
ascending order however they were asked for. The last sampled token was never given to the model, so no file has a row of it
unless a later request went on from there. A `.lock` file lies beside each one, and is held until it is written.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.errors import UsageError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.imported_states import BLOCK_BYTES, ID_DTYPES, IDS
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES, first_not_finite, from_float32, to_float32
from inkplex_data.memory.capture.tensor_file import (
    ITEM_BYTES,
    Tensor,
    TensorFile,
    open_tensors,
    states_error,
)
from inkplex_data.memory.engines.final_norm import FinalNorm

HIDDEN: Final = "hidden_states"
LAYERS: Final = (29, 35, 42)
"""The layer ids of rows 28, 34 and 42: the outputs of blocks 28, 34 and 41, the last before the final norm."""


@dataclass(frozen=True)
class Dump:
    """One file: states [n, layers, D] of the context `ids`, int64 [n]; `columns` are the layers of the three rows."""

    file: TensorFile
    hidden: Tensor
    ids: NDArray[np.int64]
    columns: tuple[int, ...]

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def where(self) -> str:
        return self.file.where

    @property
    def dtype(self) -> str:
        return self.hidden.dtype

    @property
    def width(self) -> int:
        return self.hidden.shape[2]

    def rows(self, start: int, stop: int, norm: FinalNorm) -> Iterator[NDArray[np.uint16]]:
        """Rows 28, 34 and 42 of positions [start, stop), some at a time: bfloat16 bits, uint16 [k, 3, D].

        Raises RecordingError for values that are not finite, and for a file that changed.
        """
        layers = self.hidden.shape[1]
        row_bytes = layers * self.width * ITEM_BYTES[self.dtype]
        step = max(1, BLOCK_BYTES // row_bytes)
        for first in range(start, stop, step):
            rows = min(step, stop - first)
            data = self.file.read(self.hidden.begin + first * row_bytes, rows * row_bytes, f"row {first}")
            values = to_float32(data, self.dtype).reshape(rows, layers, self.width)[:, self.columns]
            bits = from_float32(values)
            bits[:, -1] = norm.rows(values[:, -1], self.dtype)
            bad = first_not_finite(bits)
            if bad is not None:
                raise states_error(f"the states of row {first + bad} are not finite in bfloat16", self.where)
            yield bits


def open_dumps(folder: Path, layers: Sequence[int] = LAYERS) -> list[Dump]:
    """The files of a folder, by name. `layers` are the ids that the engine was asked for.

    Raises UsageError where layers of the rows are not among them, for a folder without files and for one that is still
    being written, RecordingError for a file that is not what the connector writes.
    """
    order = sorted(set(layers))
    lacking = [str(layer) for layer in LAYERS if layer not in order]
    if lacking:
        raise UsageError(
            f"layers {', '.join(map(str, order))} lack {', '.join(lacking)}: rows "
            f"{', '.join(map(str, STATE_ROWS))} are made of layers {', '.join(map(str, LAYERS))}",
            where="--layers",
            next_step="Have the engine write these layers.",
        )
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise UsageError("the folder holds no safetensors file", where=str(folder))
    columns = tuple(order.index(layer) for layer in LAYERS)
    return [_open(path, len(order), columns) for path in paths]


def _open(path: Path, layers: int, columns: tuple[int, ...]) -> Dump:
    _check_written(path)
    where = f"{path.parent.name}/{path.name}"
    file = open_tensors(path, where=where)
    hidden, ids = file.tensor(HIDDEN), file.tensor(IDS)
    if hidden.dtype not in DTYPE_NAMES or len(hidden.shape) != 3 or hidden.shape[1] != layers:
        raise states_error(
            f"tensor {HIDDEN!r} is {hidden.dtype} {list(hidden.shape)}; a dump of {layers} layers has floats [n, {layers}, D]",
            where,
        )
    if hidden.shape[2] < 1 or ids.dtype not in ID_DTYPES or ids.shape != hidden.shape[:1]:
        raise states_error(
            f"tensor {IDS!r} is {ids.dtype} {list(ids.shape)} beside states {list(hidden.shape)}", where
        )
    for tensor in (hidden, ids):
        file.check_bytes(tensor)
    found = np.frombuffer(file.read(ids.begin, ids.end - ids.begin, "its token ids"), ID_DTYPES[ids.dtype])
    return Dump(file, hidden, found.astype(np.int64), columns)


def _check_written(path: Path) -> None:
    """Raise UsageError where the engine still holds the lock beside a file."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            f"{path.name} is still being written",
            where=str(path.parent),
            next_step="Run this again when the engine is done.",
        ) from error
    except OSError:  # no lock: the engine was told to write none
        return
