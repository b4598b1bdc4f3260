"""`import states --from vllm`: the files of the engine's requests become the states of a recording's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inkplex_data.atomic import only_writer
from inkplex_data.corpus.recordings.recording import RecordedRequest, read_recording
from inkplex_data.corpus.recordings.states_identity import STREAMS, StatesIdentity, tokenizer_sha256
from inkplex_data.errors import UsageError
from inkplex_data.memory.capture.native_input import heard_audio, history_digest, input_digests
from inkplex_data.memory.capture.plausible_states import PlausibleStates
from inkplex_data.memory.capture.recordings_with_states import (
    StatedRecording,
    states_target,
    write_recording,
    write_states_file,
)
from inkplex_data.memory.capture.state_bits import DTYPE_NAMES
from inkplex_data.memory.engines.final_norm import FinalNorm
from inkplex_data.memory.engines.vllm_dumps import Dump
from inkplex_data.memory.ownership import Ownership
from inkplex_data.problems import recording_refusal

Progress = Callable[[int, int], None]
"""Called with the tokens done and to do."""

PROFILE = "vLLM extract_hidden_states"


@dataclass(frozen=True)
class _Own:
    """The rows of one request: positions [start, stop) of a dump."""

    dump: Dump
    start: int
    stop: int
    norm: FinalNorm

    @property
    def path(self) -> Path:
        return self.dump.path

    @property
    def where(self) -> str:
        return self.dump.where

    def blocks(self) -> Iterator[NDArray[np.uint16]]:
        return self.dump.rows(self.start, self.stop, self.norm)


def attach_dumps(
    path: Path,
    dumps: Sequence[Dump],
    norm: FinalNorm,
    out: Path,
    *,
    progress: Progress | None = None,
) -> StatedRecording:
    """Write `OUT/NAME.recording.jsonl` with the states that `dumps` hold of its requests' contexts.

    A request's rows come from a file whose token ids begin with its whole context, of which they are the last. Where that
    is lacking for nothing but the last token of a request, nobody computed that token, and the recording is written
    without it; `dropped` counts them. Other files of the folder are left alone.

    Raises RecordingError with code recording-states-absent for a request that no file has, recording-states-differ for
    dumps of other types or widths or of another model than the recording names, and as `PlausibleStates` does; OutputError
    as `only_writer` does.
    """
    recording = read_recording(path, allow_outside=True)
    requests = sorted(recording, key=lambda one: one.call)
    Ownership(requests, source=path.name)
    found = _match(requests, dumps, path.name)
    kept = [_shortened(request, found.get(request.call)) for request in requests]
    own = {number: _Own(dump, start, stop, norm) for number, (dump, start, stop) in found.items()}
    model = recording.header.model
    _check_dumps([dump for dump, _, _ in found.values()], norm, model, path.name)
    digests = input_digests(kept, heard_audio(kept, source=path.name), source=path.name)
    any_dump = next(iter(own.values())).dump
    identity = StatesIdentity(
        model=model or norm.model,
        revision=norm.revision,
        tokenizer_sha256=tokenizer_sha256(recording.header.tokenizer),
        runtime_profile=PROFILE,
        streams=list(STREAMS),
        dtype=DTYPE_NAMES[any_dump.dtype],
        width=any_dump.width,
        input_sha256=history_digest(digests),
    ).dumped_as(DTYPE_NAMES[any_dump.dtype])
    plausible, files = PlausibleStates(), dict[int, Path]()
    total, done = sum(map(len, kept)), 0
    with only_writer(out):
        for request in kept:
            if not len(request):
                continue
            files[request.call] = states_target(path, out, request.call)
            write_states_file(
                files[request.call],
                plausible.blocks(own[request.call], request),
                ids=request.ids,
                identity=identity.of_input(digests[request.call]),
                request=request.call,
            )
            done += len(request)
            if progress is not None:
                progress(done, total)
        target = write_recording(
            path,
            out,
            files,
            kept,
            identity=identity,
            provenance={"states_from": any_dump.path.parent.name},
            sizes={request.call: len(request) for request in kept},
        )
    name = recording.header.recording
    dropped = sum(map(len, requests)) - total
    return StatedRecording(target, name, len(kept), total, identity, dropped)


def _match(
    requests: Sequence[RecordedRequest], dumps: Sequence[Dump], source: str
) -> dict[int, tuple[Dump, int, int]]:
    """Request → the file with its context, and the positions of its own rows there."""
    contexts = _contexts(requests)
    begins = {request.cached for request in requests if request.cached is not None}
    found = {}
    for request in requests:
        context, size = contexts[request.call], len(request)
        if not size:
            continue
        whole = [dump for dump in dumps if _covers(dump, context)]
        is_sampled_last = not any(call == request.call and tokens >= len(context) for call, tokens in begins)
        if not whole and is_sampled_last:
            context = context[:-1]
            size -= 1
            whole = [dump for dump in dumps if size and _covers(dump, context)]
        if not whole:
            longest = max((_shared(dump, context) for dump in dumps), default=0)
            what = (
                f"no file holds the context of request {request.call}, {len(contexts[request.call]):,} tokens: "
                f"the longest has {longest:,} of them"
            )
            raise recording_refusal("recording-states-absent", what, f"{source}:{request.line}")
        if request.media.any() and len(whole) > 1:
            what = (
                f"{whole[0].path.name} and {whole[1].path.name} both have the ids of request {request.call}, which stand "
                "for media that they do not name"
            )
            raise recording_refusal("recording-states-differ", what, f"{source}:{request.line}")
        # The file of the request itself has nothing behind its context.
        best = min(whole, key=lambda dump: (len(dump.ids), dump.path.name))
        found[request.call] = (best, len(context) - size, len(context))
    if not found:
        raise UsageError("no request of the recording computed a token", where=source)
    return found


def _contexts(requests: Sequence[RecordedRequest]) -> Mapping[int, NDArray[np.int64]]:
    """Request → the ids of its whole context, int64; owners come first."""
    contexts: dict[int, NDArray[np.int64]] = {}
    for request in requests:
        own = request.ids.astype(np.int64)
        number, tokens = request.cached or (-1, 0)
        contexts[request.call] = np.concatenate([contexts[number][:tokens], own]) if tokens else own
    return contexts


def _covers(dump: Dump, context: NDArray[np.int64]) -> bool:
    size = len(context)
    return (
        len(dump.ids) >= size
        and dump.ids[size - 1] == context[-1]
        and np.array_equal(dump.ids[:size], context)
    )


def _shared(dump: Dump, context: NDArray[np.int64]) -> int:
    size = min(len(dump.ids), len(context))
    return int((dump.ids[:size] == context[:size]).cumprod().sum())


def _shortened(request: RecordedRequest, found: tuple[Dump, int, int] | None) -> RecordedRequest:
    """The request without the token that nobody computed."""
    size = 0 if found is None else found[2] - found[1]
    if size == len(request):
        return request
    cut = {
        name: getattr(request, name)[:size]
        for name in ("ids", "kinds", "bytes", "available_us", "ready_us", "source_us", "special", "media")
    }
    return replace(request, **cut)


def _check_dumps(dumps: Sequence[Dump], norm: FinalNorm, model: str | None, source: str) -> None:
    for dump in dumps:
        others = (DTYPE_NAMES[dump.dtype], dump.width), (DTYPE_NAMES[dumps[0].dtype], dumps[0].width)
        if others[0] != others[1]:
            what = f"it holds {others[0][0]} of width {others[0][1]}, {dumps[0].path.name} {others[1][0]} of {others[1][1]}"
            raise recording_refusal("recording-states-differ", what, dump.where)
        if dump.width != len(norm.weight):
            what = f"its states have width {dump.width}, the final norm of {norm.model} {len(norm.weight)}"
            raise recording_refusal("recording-states-differ", what, dump.where)
    if model is not None and model.rsplit("/")[-1] != norm.model.rsplit("/")[-1]:
        what = f"the recording is of {model}, the checkpoint is {norm.model}"
        raise recording_refusal("recording-states-differ", what, source)
