"""What a request's model was given: its token ids and, for audio, the dMel rows that stand in their place.

A recording names the audio as a stretch of a file; the rows are made here, by `audio.dmel`, as Inkling hears them.
The digest of the whole input, history included, tells states of one input from those of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inkplex_data.audio.dmel import MELS, DmelStream
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.clock import us_to_samples, us_to_seconds
from inkplex_data.corpus.recordings.prefix_chains import Ownership, Request
from inkplex_data.corpus.recordings.recording_lines import HEARD, HeardSpan
from inkplex_data.errors import CallRefused
from inkplex_data.problems import recording_refusal

Audio = Mapping[int, NDArray[np.uint8]]
"""Per request the dMel rows of its computed audio placeholders, uint8 [k, 80], in order of position."""


class HeardRequest(Request, Protocol):
    """A request that may say what its audio tokens stand for."""

    @property
    def audio(self) -> Sequence[HeardSpan]: ...


def heard_audio(requests: Sequence[HeardRequest], *, source: str) -> dict[int, NDArray[np.uint8]]:
    """The dMel rows of the requests that name audio, one for each audio token.

    Raises RecordingError with code recording-media where a file cannot be read that far, and where its rows are not
    as many as the tokens that stand for them.
    """
    return {request.call: _rows(request, source) for request in requests if request.audio}


def _rows(request: HeardRequest, source: str) -> NDArray[np.uint8]:
    where = f"{source}:{request.line}"
    heard = np.flatnonzero(request.media == HEARD)
    covered: list[NDArray[np.int64]] = []
    rows: list[NDArray[np.uint8]] = []
    for span in request.audio:
        own = _dmel(span, where)
        rows.append(own)
        covered.append(np.arange(span.token, span.token + len(own)))
        run = int(np.searchsorted(heard, span.token))
        tokens = int((heard[run:] - heard[run] == np.arange(len(heard) - run)).cumprod().sum())
        if len(own) > tokens:
            what = f"request {request.call}: {span.path.name} has {len(own)} rows of 50 ms for {tokens} audio tokens from {span.token} on"
            raise recording_refusal("recording-media", what, where)
    named = np.concatenate(covered)
    if not np.array_equal(named, heard):
        missing = np.setdiff1d(heard, named)
        what = (
            f"request {request.call}: nothing says what audio token {missing[0]} stands for"
            if len(missing)
            else f"request {request.call}: two spans stand for the same audio tokens"
        )
        raise recording_refusal("recording-media", what, where)
    return np.concatenate(rows)


def _dmel(span: HeardSpan, where: str) -> NDArray[np.uint8]:
    """dMel of a span, uint8 [k, 80]."""
    try:
        source = open_audio(span.path)
    except CallRefused as error:
        raise recording_refusal("recording-media", f"{span.path.name} {error.what}", where) from error
    if span.channel >= source.channels:
        what = f"{span.path.name} has {source.channels} channels, none of number {span.channel}"
        raise recording_refusal("recording-media", what, where)
    first, stop = (us_to_samples(us, source.sample_rate_hz) for us in (span.start_us, span.end_us))
    stream = DmelStream(source.sample_rate_hz)
    rows = [np.empty((0, MELS), np.uint8)]
    reached = 0
    for block in source.blocks():
        start, reached = reached, reached + block.shape[1]
        rows.append(stream.push(block[span.channel, max(first - start, 0) : max(stop - start, 0)]))
        if reached >= stop:
            break
    if reached < stop:
        what = f"{span.path.name} ends after {reached / source.sample_rate_hz:.3f} s, before {us_to_seconds(span.end_us)} s"
        raise recording_refusal("recording-media", what, where)
    return np.concatenate([*rows, stream.finish()])


def input_digests(
    requests: Sequence[Request], audio: Audio, *, source: str = "recording.jsonl"
) -> dict[int, str]:
    """Per request that computed tokens the SHA-256 of its whole input.

    It covers the ids of all positions of the request's context, cached ones included, as little-endian int32, and
    then the dMel rows of its audio positions where the recording names the audio. Raises RecordingError as
    `Ownership` does.
    """
    Ownership(requests, source=source)
    digests: dict[int, str] = {}
    for request, ids, rows in _contexts(requests, audio):
        if len(request.ids):
            digest = hashlib.sha256(np.ascontiguousarray(ids, "<i4").data)
            digest.update(np.ascontiguousarray(rows).data)
            digests[request.call] = digest.hexdigest()
    return digests


def history_digest(digests: Mapping[int, str]) -> str:
    """The SHA-256 of a recording's inputs: the digests of its requests, as text, in order of their numbers."""
    return hashlib.sha256("".join(digests[number] for number in sorted(digests)).encode()).hexdigest()


def _contexts(
    requests: Sequence[Request], audio: Audio
) -> Iterator[tuple[Request, NDArray[np.int32], NDArray[np.uint8]]]:
    """Every request with the ids and audio rows of its context, owners first."""
    none: NDArray[np.uint8] = np.empty((0, MELS), np.uint8)
    ids: dict[int, NDArray[np.int32]] = {}
    heard: dict[int, NDArray[np.int64]] = {}
    rows: dict[int, NDArray[np.uint8]] = {}
    for request in sorted(requests, key=lambda one: one.call):
        number, (owner, prefix) = request.call, request.cached or (-1, 0)
        own = audio.get(number, none)
        # Positions of the rows: all audio tokens of a request that names audio, none of one that does not.
        at = np.flatnonzero(request.media == HEARD)[: len(own)] + prefix
        if prefix:
            kept = int(np.searchsorted(heard[owner], prefix))
            ids[number] = np.concatenate([ids[owner][:prefix], request.ids])
            heard[number] = np.concatenate([heard[owner][:kept], at])
            rows[number] = np.concatenate([rows[owner][:kept], own])
        else:
            ids[number], heard[number], rows[number] = request.ids, at, own
        yield request, ids[number], rows[number]
