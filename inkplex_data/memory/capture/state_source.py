"""Where a recording's states come from: the files that its requests name, or a model, or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from inkplex_data.config.recipe import CaptureConfig
from inkplex_data.corpus.recordings import recording
from inkplex_data.corpus.recordings.recording_models import RecordingHeader
from inkplex_data.corpus.recordings.states_identity import StatesIdentity
from inkplex_data.corpus.recordings.vocabulary import ByteVocabulary
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.capture_states import capture_states
from inkplex_data.memory.capture.identify_states import captured_identity, identify
from inkplex_data.memory.capture.imported_states import StatesFile, open_states_file
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from inkplex_data.memory.capture.native_input import (
    Audio,
    HeardRequest,
    heard_audio,
    history_digest,
    input_digests,
)
from inkplex_data.memory.capture.plausible_states import PlausibleStates
from inkplex_data.memory.capture.tensor_file import states_error
from inkplex_data.memory.ownership import Request
from inkplex_data.problems import recording_refusal

if TYPE_CHECKING:
    from inkplex_data.memory.capture.inkling import Dtype


class StatedRequest(HeardRequest, recording.StatedRequest, Protocol):
    """A request that may name the file of its states and its audio."""


class StateSource(Protocol):
    """States of one recording, and whose they are."""

    @property
    def identity(self) -> StatesIdentity: ...
    def blocks(self) -> Iterator[tuple[int, NDArray[np.uint16]]]:
        """All states in layout order: the request, and bfloat16 bits, uint16 [n, 3, D]. Raises RecordingError."""
        ...


LoadModel = Callable[["str", "Dtype", "str"], Inkling]


def state_source(
    header: RecordingHeader,
    requests: Sequence[StatedRequest],
    capture: CaptureConfig | None,
    *,
    source: str = "recording.jsonl",
    load: LoadModel | None = None,
    accept_unidentified: bool = False,
) -> StateSource | None:
    """Imported where the requests name files, captured where `capture` says how, else None.

    `load` (spec, dtype, device) lends a model that is loaded already. `source` is the recording's name in
    messages. `accept_unidentified`: states that do not say whose they are may pass, marked as such.

    Raises RecordingError where only some requests that computed tokens name files, for files that do not fit and for
    states that are not of this recording; ConfigError where the model is not to be had.
    """
    named = recording.stated_requests(requests, source=source)
    if named:
        files = [_open(request, source) for request in named]
        return imported_states(
            header, requests, files, source=source, accept_unidentified=accept_unidentified
        )
    if capture is None or not any(len(request.ids) for request in requests):
        return None
    model = (load or _load)(capture.model, capture.dtype, capture.device)
    return CapturedStates(header, requests, model, capture.chunk_tokens, source)


def _load(spec: str, dtype: Dtype, device: str) -> Inkling:
    return load_inkling(spec, dtype=dtype, device=device)


def _open(request: recording.StatedRequest, source: str) -> StatesFile:
    assert request.states_path is not None
    return open_states_file(request.states_path, tokens=len(request.ids), where=f"{source}:{request.line}")


def imported_states(
    header: RecordingHeader,
    requests: Sequence[StatedRequest],
    files: Sequence[StatesFile],
    *,
    source: str,
    accept_unidentified: bool,
    is_new: bool = False,
) -> ImportedStates:
    """The states of `files`, one for each request that computed tokens, in order; checked against the recording.

    `is_new`: the files are about to be joined with the recording, whose header says nothing of them yet. Raises
    RecordingError where widths differ, and as `identify` does.
    """
    computed = [request for request in sorted(requests, key=lambda one: one.call) if len(request.ids)]
    for file in files:
        if file.width != files[0].width:
            what = f"states have width {file.width}, those of {files[0].path.name} have {files[0].width}"
            raise states_error(what, file.where)
    digests = input_digests(requests, heard_audio(requests, source=source), source=source)
    identity = identify(header, computed, files, digests, source=source, is_new=is_new)
    states = ImportedStates(identity, tuple(files), tuple(computed))
    is_marked = not is_new and header.states_identity is not None and header.states_identity.unidentified
    if identity.unidentified and not accept_unidentified and not is_marked:
        for _ in states.blocks():  # states that no model computed are told as such first
            pass
        lacks = "its header and the files" if not is_new else "the files"
        what = f"{lacks} do not say which model computed the states, from which input"
        raise recording_refusal("recording-states-unidentified", what, source)
    return states


@dataclass(frozen=True)
class ImportedStates:
    """States of files, in layout order; `requests` are those that computed them, one a file."""

    identity: StatesIdentity
    files: tuple[StatesFile, ...]
    requests: Sequence[Request]

    def blocks(self) -> Iterator[tuple[int, NDArray[np.uint16]]]:
        """Raises RecordingError also for what no model computes."""
        plausible = PlausibleStates()
        for file, request in zip(self.files, self.requests, strict=True):
            for block in plausible.blocks(file, request):
                yield request.call, block


class CapturedStates:
    """States that `model` computes each time they are asked for."""

    def __init__(
        self,
        header: RecordingHeader,
        requests: Sequence[HeardRequest],
        model: Inkling,
        chunk_tokens: int | ChunkRule | None,
        source: str,
    ) -> None:
        """`chunk_tokens` None: as the model's devices have room. Raises RecordingError as `capture_states` does, and for byte tokens, which no trained model knows."""
        if header.tokenizer == ByteVocabulary.identity and not model.identity.untrained:
            what = (
                f"its tokens are bytes ({ByteVocabulary.identity}), which the trained model was not made for"
            )
            raise recording_refusal("recording-token-id", what, source)
        self._requests, self._model, self._source = requests, model, source
        self._rule = model.chunk_rule() if chunk_tokens is None else ChunkRule.of(chunk_tokens)
        self._audio: Audio = heard_audio(requests, source=source)
        self.inputs = input_digests(requests, self._audio, source=source)
        self.identity = captured_identity(header, model.identity, self._rule, history_digest(self.inputs))

    def blocks(self, done: Collection[int] = ()) -> Iterator[tuple[int, NDArray[np.uint16]]]:
        for number, _, states in capture_states(
            self._requests,
            self._model,
            chunk_tokens=self._rule,
            source=self._source,
            audio=self._audio,
            done=done,
        ):
            yield number, states
