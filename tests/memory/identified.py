"""States of an engine that says what it is: for tests that need states, and not whose they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.recordings.recording_models import RecordingHeader
from inkplex_data.corpus.recordings.states_identity import STREAMS, StatesIdentity, to_metadata
from inkplex_data.memory.capture.native_input import heard_audio, history_digest, input_digests

HEADER = RecordingHeader(schema_="inkplex/recording@1", recording="r")


def engine(width: int, **changes: Any) -> StatesIdentity:
    """Whose states of `width` are; their input is still to be said."""
    fields: dict[str, Any] = {
        "model": "made/engine",
        "revision": "1",
        "tokenizer_sha256": "ab" * 32,
        "runtime_profile": "engine 1",
        "streams": list(STREAMS),
        "dtype": "bfloat16",
        "width": width,
        "input_sha256": "00" * 32,
    }
    return StatesIdentity(**{**fields, **changes})


def metadata_of(requests: Sequence[Any], call: int, identity: StatesIdentity) -> dict[str, str]:
    """The metadata of the file of request `call`."""
    digests = input_digests(requests, heard_audio(requests, source="r"))
    return to_metadata(identity.of_input(digests[call]), call)


def header_of(requests: Sequence[Any], identity: StatesIdentity) -> RecordingHeader:
    """The header of a recording of these requests, whose states are of `identity`."""
    digests = input_digests(requests, heard_audio(requests, source="r"))
    said = identity.of_input(history_digest(digests))
    return HEADER.model_copy(update={"states_identity": said})


def identify_files(recording: Path, **changes: Any) -> None:
    """Say in the recording and in the files of states that it names whose they are, or say it anew."""
    from safetensors.torch import load_file, save_file

    requests = list(read_recording(recording, allow_outside=True))
    width = 0
    for request in requests:
        if request.states_path is not None:
            tensors = load_file(request.states_path)
            width = next(iter(tensors.values())).shape[2]
            save_file(
                tensors, request.states_path, metadata_of(requests, request.call, engine(width, **changes))
            )
    first, *rest = recording.read_text().splitlines(keepends=True)
    header = json.loads(first)
    said = header_of(requests, engine(width, **changes)).states_identity
    assert said is not None
    header |= {"states_identity": said.as_dict()} | ({"model": said.model} if "model" in header else {})
    recording.write_text(json.dumps(header) + "\n" + "".join(rest))
