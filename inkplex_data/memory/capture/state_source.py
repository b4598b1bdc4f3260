"""Where a recording's states come from: the files that its requests name, or a model, or nowhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from inkplex_data.config.recipe import CaptureConfig
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.capture_states import Audio, capture_states
from inkplex_data.memory.capture.imported_states import (
    DTYPE_NAMES,
    StatesFile,
    open_states_file,
    states_error,
)
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from inkplex_data.memory.capture.plausible_states import PlausibleStates
from inkplex_data.memory.ownership import Request
from inkplex_data.problems import recording_refusal

if TYPE_CHECKING:
    from inkplex_data.memory.capture.inkling import Dtype


class StatedRequest(Request, Protocol):
    """A request that may name the file of its states."""

    @property
    def states_path(self) -> Path | None: ...


class StateSource(Protocol):
    """States of one recording. `identity` says what made them, in plain values."""

    @property
    def kind(self) -> Literal["captured", "imported"]: ...
    @property
    def width(self) -> int: ...
    @property
    def identity(self) -> dict[str, Any]: ...
    def chunks(self) -> Iterator[NDArray[np.uint16]]:
        """All states in layout order, bfloat16 bits, uint16 [n, 3, D] each. Raises RecordingError."""
        ...


LoadModel = Callable[["str", "Dtype", "str"], Inkling]


def state_source(
    requests: Sequence[StatedRequest],
    capture: CaptureConfig | None,
    *,
    source: str = "recording.jsonl",
    load: LoadModel | None = None,
    audio: Audio | None = None,
) -> StateSource | None:
    """Imported where the requests name files, captured where `capture` says how, else None.

    `load` (spec, dtype, device) lends a model that is loaded already. `source` is the recording's name in
    messages. Raises RecordingError where only some requests that computed tokens name files, and for files
    that do not fit; ConfigError where the model is not to be had.
    """
    computed = [request for request in sorted(requests, key=lambda one: one.call) if len(request.ids)]
    named = [request for request in computed if request.states_path is not None]
    if named:
        if len(named) < len(computed):
            without = next(request for request in computed if request.states_path is None)
            code = "recording-states-mixed"
            what = (
                f"request {without.call} names no states; request {named[0].call} (line {named[0].line}) names "
                f"{named[0].states_path.name if named[0].states_path else ''}"
            )
            raise recording_refusal(code, what, f"{source}:{without.line}")
        return ImportedStates(tuple(_open(request, source) for request in named), named)
    if capture is None or not computed:
        return None
    model = (load or _load)(capture.model, capture.dtype, capture.device)
    return CapturedStates(requests, model, capture.chunk_tokens, source, audio)


def _load(spec: str, dtype: Dtype, device: str) -> Inkling:
    return load_inkling(spec, dtype=dtype, device=device)


def _open(request: StatedRequest, source: str) -> StatesFile:
    assert request.states_path is not None
    return open_states_file(request.states_path, tokens=len(request.ids), where=f"{source}:{request.line}")


class ImportedStates:
    """States of files, in layout order; `requests` are those that computed them, one a file, where they are to be
    checked against their tokens. Raises RecordingError where their widths differ."""

    kind: Literal["imported"] = "imported"

    def __init__(self, files: tuple[StatesFile, ...], requests: Sequence[Request] = ()) -> None:
        for file in files:
            if file.width != files[0].width:
                what = f"states have width {file.width}, those of {files[0].path.name} have {files[0].width}"
                raise states_error(what, file.where)
        self.files = files
        self.requests = requests
        self.width = files[0].width

    @property
    def identity(self) -> dict[str, Any]:
        """The files' dtypes: float32 was rounded to bfloat16."""
        return {"dtype": ", ".join(sorted({DTYPE_NAMES[file.dtype] for file in self.files}))}

    def chunks(self) -> Iterator[NDArray[np.uint16]]:
        for file in self.files:
            yield from file.blocks()

    def checked(self) -> Iterator[Iterator[NDArray[np.uint16]]]:
        """The blocks of each file, of which those of one are read before the next; refuses what no model computes."""
        plausible = PlausibleStates()
        for file, request in zip(self.files, self.requests, strict=True):
            yield plausible.blocks(file, request)

    def sha256(self) -> str:
        """Digest over the stored bits, which reads and checks everything once."""
        digest = hashlib.sha256(str(self.width).encode())
        for blocks in self.checked():
            for block in blocks:
                digest.update(block.data)
        return digest.hexdigest()


@dataclass(frozen=True)
class CapturedStates:
    """States that `model` computes each time they are asked for."""

    requests: Sequence[Request]
    model: Inkling
    chunk_tokens: int
    source: str
    audio: Audio | None = None
    kind: Literal["captured"] = "captured"

    @property
    def width(self) -> int:
        return self.model.width

    @property
    def identity(self) -> dict[str, Any]:
        """The model's identity and its chunk rule."""
        return {**self.model.identity.as_dict(), "chunks": ChunkRule(self.chunk_tokens).as_dict()}

    def chunks(self) -> Iterator[NDArray[np.uint16]]:
        for _, _, states in capture_states(
            self.requests,
            self.model,
            chunk_tokens=self.chunk_tokens,
            source=self.source,
            audio=self.audio,
        ):
            yield states
