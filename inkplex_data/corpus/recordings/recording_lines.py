"""One line of `recording.jsonl` as columns, with every rule of `recording_models` checked by hand.

A recording has 100,000 tokens: a model object for each would cost more than all the rest of a build's plan.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from inkplex_data.clock import UNKNOWN_US, seconds_to_us
from inkplex_data.corpus.fields import SECONDS_LIMIT
from inkplex_data.corpus.jsontext import Line, given_twice, parse_json
from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.recordings.recording_models import HEADER_SCHEMA, AudioSpan, RecordingHeader
from inkplex_data.faults import Fault, FaultError, faults_of, short
from inkplex_data.grid import KINDS, MEDIA

KIND_INDEX: Final = {kind: index for index, kind in enumerate(KINDS)}
INT32_LIMIT = 2**31
HEARD: Final = 1 + MEDIA.index("audio")
TOKEN_FIELDS = frozenset(
    {"id", "kind", "text", "bytes_b64", "at", "ready_at", "event_at", "special", "media"}
)
REQUEST_FIELDS = frozenset({"call", "cached", "tokens", "states", "audio"})
TIME_TWICE = frozenset({given_twice("at"), given_twice("ready_at"), given_twice("event_at")})


@dataclass(frozen=True)
class HeardSpan:
    """Stretch [start_us, end_us) of a channel of a file, for which consecutive audio tokens from `token` on stand."""

    token: int
    path: Path
    start_us: int
    end_us: int
    channel: int


@dataclass(frozen=True)
class RecordedRequest:
    """One model request with n computed tokens, as columns. `call` is its number in the file.

    `cached`: (request, tokens) whose positions come first, so token i is at position `cached[1]` + i.
    `ids` int32 [n]; `kinds` uint8 [n], indices into `grid.KINDS`; `bytes` n byte strings, empty
    for media; `special` bool [n]; `media` uint8 [n], 0 for none, 1 audio, 2 image. Session times, int64 [n]:
    `available_us` at the source, `ready_us` delivered to the host and `source_us` of what a token tells of, both
    UNKNOWN_US where nobody says. `states_path` names a safetensors file with n rows. `audio`: what audio tokens stand
    for, where the recording says it. `line` is where the request stands.
    """

    call: int
    cached: tuple[int, int] | None
    ids: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    bytes: list[bytes]
    available_us: NDArray[np.int64]
    ready_us: NDArray[np.int64]
    source_us: NDArray[np.int64]
    special: NDArray[np.bool_]
    media: NDArray[np.uint8]
    states_path: Path | None
    line: int
    audio: tuple[HeardSpan, ...] = ()

    def __len__(self) -> int:
        return len(self.bytes)

    @cached_property
    def arrival_us(self) -> NDArray[np.int64]:
        """int64 [n]: the later of `available_us` and `ready_us`."""
        return np.maximum(self.available_us, self.ready_us)


def parse_header(line: Line) -> RecordingHeader:
    """Raises FaultError with code recording-header."""
    try:
        data = parse_json(line.data)
        if not isinstance(data, dict) or data.get("schema") != HEADER_SCHEMA:
            got = data.get("schema", data) if isinstance(data, dict) else data
            rule = f"is not a header: its `schema` must be {HEADER_SCHEMA!r}"
            raise FaultError(Fault(rule, short(got), "/schema"))
        return RecordingHeader.model_validate(data)
    except FaultError as error:
        raise FaultError(*(replace(fault, code="recording-header") for fault in error.faults)) from error
    except ValidationError as error:
        raise FaultError(*faults_of(error, data, RecordingHeader, code="recording-header")) from error


def parse_request(line: Line, paths: Paths) -> RecordedRequest:
    """One line as columns. Raises FaultError with a code of `problems.recording_codes`."""
    try:
        data = parse_json(line.data, half_pairs=True)
    except FaultError as error:
        fault = error.faults[0]
        if fault.rule in TIME_TWICE:
            fault = replace(fault, code="recording-time")
        elif line.complete or fault.code:
            fault = replace(fault, code="recording-line")
        else:
            fault = replace(
                fault, rule=f"the file ends within this line: it {fault.rule}", code="recording-cut"
            )
        raise FaultError(fault) from error
    if not isinstance(data, dict):
        raise FaultError(Fault("is not a JSON object", short(data), code="recording-line"))
    _no_others(data, REQUEST_FIELDS, "", "recording-line")
    tokens = data.get("tokens")
    if not isinstance(tokens, list):
        _fail("recording-line", "/tokens", tokens, "must be a list of tokens")
    columns = _Columns(len(tokens))
    for index, token in enumerate(tokens):
        columns.add(index, token)
    return RecordedRequest(
        call=_int32(data.get("call"), "/call", "recording-line"),
        cached=_cached(data.get("cached")),
        ids=columns.ids,
        kinds=columns.kinds,
        bytes=columns.bytes,
        available_us=columns.available_us,
        ready_us=columns.ready_us,
        source_us=columns.source_us,
        special=columns.special,
        media=columns.media,
        states_path=_states(data.get("states"), paths),
        line=line.number,
        audio=_audio(data.get("audio"), columns.media, paths),
    )


class _Columns:
    def __init__(self, tokens: int) -> None:
        self.ids = np.empty(tokens, np.int32)
        self.kinds = np.empty(tokens, np.uint8)
        self.bytes: list[bytes] = []
        self.available_us = np.empty(tokens, np.int64)
        self.ready_us = np.full(tokens, UNKNOWN_US, np.int64)
        self.source_us = np.full(tokens, UNKNOWN_US, np.int64)
        self.special = np.zeros(tokens, np.bool_)
        self.media = np.zeros(tokens, np.uint8)
        self._last_time: tuple[object, int] = (self, 0)

    def add(self, index: int, token: object) -> None:
        if type(token) is not dict:
            _fail("recording-token", f"/tokens/{index}", token, "is not a JSON object")
        if not token.keys() <= TOKEN_FIELDS:
            _no_others(token, TOKEN_FIELDS, f"/tokens/{index}", "recording-token")
        number = token.get("id")
        if type(number) is not int or not 0 <= number < INT32_LIMIT:
            number = _int32(number, f"/tokens/{index}/id", "recording-token")
        self.ids[index] = number
        kind = token.get("kind")
        if type(kind) is not str or kind not in KIND_INDEX:
            _fail("recording-kind", f"/tokens/{index}/kind", kind, f"must be one of {', '.join(KIND_INDEX)}")
        self.kinds[index] = KIND_INDEX[kind]
        if (special := token.get("special", False)) is not False:
            self.special[index] = _flag(special, index)
        if (media := token.get("media")) is not None:
            if media not in MEDIA:
                _fail("recording-token", f"/tokens/{index}/media", media, "must be audio or image")
            self.media[index] = 1 + MEDIA.index(media)
        content = _content(token, index)
        self.bytes.append(b"" if media is not None else content)
        at_us = self.available_us[index] = self._us(token.get("at"), index, "at")
        if (ready_at := token.get("ready_at")) is not None:
            self.ready_us[index] = self._us(ready_at, index, "ready_at")
        if (event_at := token.get("event_at")) is not None:
            event_us = self.source_us[index] = self._us(event_at, index, "event_at")
            if event_us > at_us:
                rule = f"is after the token was available, at {token['at']} s"
                _fail("recording-time", f"/tokens/{index}/event_at", event_at, rule)

    def _us(self, value: object, index: int, name: str) -> int:
        # A prefill makes hundreds of tokens available at one time: convert it once.
        if value == self._last_time[0] and type(value) is type(self._last_time[0]):
            return self._last_time[1]
        if type(value) not in (int, float) or not abs(value) <= SECONDS_LIMIT:  # type: ignore[arg-type]
            if isinstance(value, list):
                rule = "must be one number of seconds, not several"
            else:
                rule = "must be a number of seconds" if value is not None else "is missing"
            _fail("recording-time", f"/tokens/{index}/{name}", value, rule)
        assert isinstance(value, (int, float))
        self._last_time = (value, seconds_to_us(value))
        return self._last_time[1]


def _content(token: dict[str, Any], index: int) -> bytes:
    text, encoded = token.get("text"), token.get("bytes_b64")
    if text is not None:
        if encoded is not None:
            _fail("recording-bytes", f"/tokens/{index}", token, "has both text and bytes_b64")
        if type(text) is not str:
            _fail("recording-bytes", f"/tokens/{index}/text", text, "must be text")
        try:
            return text.encode()
        except UnicodeEncodeError:
            _fail("recording-bytes", f"/tokens/{index}/text", text, "has half a surrogate pair")
    if encoded is not None:
        try:
            if type(encoded) is not str:
                raise ValueError("not text")
            return binascii.a2b_base64(encoded.encode("ascii"), strict_mode=True)
        except ValueError:
            _fail("recording-bytes", f"/tokens/{index}/bytes_b64", encoded, "must be standard base64")
    if token.get("special") is not True and token.get("media") is None:
        rule = "needs text or bytes_b64, being neither special nor media"
        _fail("recording-bytes", f"/tokens/{index}", token, rule)
    return b""


def _cached(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        _fail("recording-line", "/cached", value, "must be an object with call and tokens")
    _no_others(value, frozenset({"call", "tokens"}), "/cached", "recording-line")
    return (
        _int32(value.get("call"), "/cached/call", "recording-line"),
        _int32(value.get("tokens"), "/cached/tokens", "recording-line"),
    )


def _states(value: object, paths: Paths) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        _fail("recording-line", "/states", value, "must be the path of a safetensors file")
    try:
        return paths.file(value)
    except FaultError as error:
        code = "recording-states" if error.code == "file-missing" else error.code
        faults = (replace(fault, pointer="/states", code=code) for fault in error.faults)
        raise FaultError(*faults) from error


def _audio(value: object, media: NDArray[np.uint8], paths: Paths) -> tuple[HeardSpan, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        _fail("recording-media", "/audio", value, "must be a list of spans")
    spans: list[HeardSpan] = []
    for index, one in enumerate(value):
        try:
            span = AudioSpan.model_validate(one)
        except ValidationError as error:
            faults = faults_of(error, one, AudioSpan, code="recording-media")
            raise FaultError(
                *(replace(fault, pointer=f"/audio/{index}{fault.pointer}") for fault in faults)
            ) from error
        if (
            span.token >= len(media)
            or media[span.token] != HEARD
            or (spans and span.token <= spans[-1].token)
        ):
            rule = "must be the index of an audio token, after those of earlier spans"
            _fail("recording-media", f"/audio/{index}/token", span.token, rule)
        try:
            path = paths.file(span.path)
        except FaultError as error:
            faults = [replace(fault, pointer=f"/audio/{index}/path") for fault in error.faults]
            raise FaultError(*faults) from error
        spans.append(
            HeardSpan(span.token, path, seconds_to_us(span.start_s), seconds_to_us(span.end_s), span.channel)
        )
    return tuple(spans)


def _int32(value: object, pointer: str, code: str) -> int:
    if value is None:
        _fail(code, pointer, None, "is missing")
    if type(value) is not int or not 0 <= value < INT32_LIMIT:
        _fail(code, pointer, value, "must be an integer from 0 to 2³¹ − 1")
    return value


def _flag(value: object, index: int) -> bool:
    if type(value) is not bool:
        _fail("recording-token", f"/tokens/{index}/special", value, "must be true or false")
    return value


def _no_others(data: dict[str, Any], known: frozenset[str], pointer: str, code: str) -> None:
    for name, value in data.items():
        if name not in known:
            rule = f"is not a known field; known fields are {', '.join(sorted(known))}"
            raise FaultError(Fault(rule, short(value), f"{pointer}/{name}", code=code))


def _fail(code: str, pointer: str, value: object, rule: str) -> NoReturn:
    raise FaultError(Fault(rule, "" if value is None else short(value), pointer, code=code))
