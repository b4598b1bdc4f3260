"""Whether states are those of a recording: what files and header say of model, tokenizer and input, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inkplex_data.corpus.recordings.recording_models import RecordingHeader
from inkplex_data.corpus.recordings.states_identity import (
    STREAMS,
    StatesIdentity,
    capture_profile,
    names_digest,
    tokenizer_sha256,
)
from inkplex_data.errors import RecordingError
from inkplex_data.faults import FaultError
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.imported_states import StatesFile
from inkplex_data.memory.capture.inkling import ModelIdentity
from inkplex_data.memory.capture.native_input import history_digest
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES
from inkplex_data.memory.ownership import Request
from inkplex_data.problems import recording_refusal

DIFFER = "recording-states-differ"


def captured_identity(
    header: RecordingHeader, model: ModelIdentity, rule: ChunkRule, input_sha256: str
) -> StatesIdentity:
    """What this package says of states that it computes. Which experts a model takes can depend on the chunks."""
    return StatesIdentity(
        model=model.id,
        revision=model.sha256,
        tokenizer_sha256=tokenizer_sha256(header.tokenizer),
        runtime_profile=capture_profile(rule.chunk_tokens, rule.most_scores),
        streams=list(STREAMS),
        dtype=model.dtype,
        width=model.width,
        input_sha256=input_sha256,
        untrained=model.untrained,
    )


def identify(
    header: RecordingHeader,
    requests: Sequence[Request],
    files: Sequence[StatesFile],
    inputs: Mapping[int, str],
    *,
    source: str,
    is_new: bool,
) -> StatesIdentity:
    """Whose the states of `files` are, one for each of `requests`, whose inputs have the digests `inputs`.

    They are unidentified where a file or, unless they `is_new`ly join it, the header does not say so. Raises
    RecordingError for token ids of others, and where what is said differs: between files, and from the recording's
    model, tokenizer, header and input.
    """
    found: list[StatesIdentity | None] = []
    for request, file in zip(requests, files, strict=True):
        _check_ids(request, file)
        if file.request not in (None, request.call):
            raise _differs(
                f"says that its states are of request {file.request}, not {request.call}", file.where
            )
        try:
            identity = file.identity
        except FaultError as error:
            raise recording_refusal(
                "recording-states-unidentified", f"its metadata {error}", file.where
            ) from error
        found.append(None if identity is None or identity.unidentified else identity)
        if found[-1] is not None:
            _check_own(found[-1], header, file, inputs[request.call])
    said = None if is_new else header.states_identity
    whole = found[0]
    for file, identity in zip(files, found, strict=True):
        if whole is not None and identity is not None and (others := whole.differences(identity)):
            raise _differs(f"{files[0].path.name} and this file differ: {'; '.join(others)}", file.where)
    unidentified = StatesIdentity(dtype=DTYPE_NAMES[files[0].dtype], width=files[0].width, unidentified=True)
    if None in found or whole is None or (said is None and not is_new):
        return unidentified
    whole = whole.of_input(history_digest(inputs))
    if said is None:
        return whole
    if said.unidentified:
        return unidentified
    if said != whole:
        others = said.differences(whole) or [f"input {said.input_sha256} and {whole.input_sha256}"]
        raise _differs(f"the recording's header and its states differ: {'; '.join(others)}", f"{source}:1")
    return whole


def _check_ids(request: Request, file: StatesFile) -> None:
    """The tokens that a file says its states are of must be the request's."""
    ids = file.token_ids()
    if ids is None:
        return
    wrong = np.flatnonzero(ids != request.ids)
    if len(wrong):
        at = int(wrong[0])
        what = f"its states are of other tokens: token {at} has id {ids[at]}, that of request {request.call} {request.ids[at]}"
        raise _differs(what, file.where)


def _check_own(said: StatesIdentity, header: RecordingHeader, file: StatesFile, input_sha256: str) -> None:
    if said.width != file.width:
        raise _differs(f"its metadata say width {said.width}, its tensor has {file.width}", file.where)
    if header.model is not None and said.model != header.model:
        raise _differs(f"its states are of {said.model}, the recording is of {header.model}", file.where)
    if names_digest(header.tokenizer) and said.tokenizer_sha256 != tokenizer_sha256(header.tokenizer):
        what = f"its tokenizer is {said.tokenizer_sha256}, the recording's is {header.tokenizer}"
        raise _differs(what, file.where)
    if said.input_sha256 != input_sha256:
        what = f"its states are of another input ({said.input_sha256}) than the recording's request ({input_sha256})"
        raise _differs(what, file.where)


def _differs(what: str, where: str) -> RecordingError:
    return recording_refusal(DIFFER, what, where)
