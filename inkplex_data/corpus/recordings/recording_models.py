"""Models of `recording.jsonl`, for the schema and for whoever writes recordings.

Reading goes through `recording.py`, which applies the same rules to 100,000 tokens without a model each.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.fields import Duration, Flag, Index, JsonObject, Model, Name, Seconds, Text
from inkplex_data.corpus.recordings.states_identity import StatesIdentity

HEADER_SCHEMA = "inkplex/recording@1"
Kind = Literal["setup", "user", "thinking", "tool_call", "reply", "tool_result", "other"]


class BranchOf(Model):
    """The recording that this one equals before session time `at`, and differs from after."""

    recording: Name
    at: Seconds


class RecordingHeader(Model):
    """First line of a recording: one recorded task session of the reasoning model."""

    schema_: Literal["inkplex/recording@1"] = Field(alias="schema")
    recording: Name
    model: Text | None = None
    tokenizer: Text | None = None
    branch_of: BranchOf | None = None
    times: Literal["recorded", "constructed"] = Field(
        default="recorded", description="constructed: a declared schedule stands in for missing times"
    )
    schedule: JsonObject | None = Field(
        default=None, description="the declared schedule of constructed times"
    )
    states_identity: StatesIdentity | None = Field(
        default=None, description="whose states the requests name; required where they name any"
    )
    provenance: JsonObject | None = None

    @property
    def fork(self) -> tuple[str, int] | None:
        """The recording that this one branches from, and the session time of the fork in µs."""
        branch = self.branch_of
        return None if branch is None else (branch.recording, seconds_to_us(branch.at))


class Cached(Model):
    """The first `tokens` positions were computed by request `call`, or by one that it cached from."""

    call: Index
    tokens: Index


class RecordingToken(Model):
    """One computed token. Session times in seconds; it has arrived at the later of `at` and `ready_at`.

    `event_at`: when what it tells of happened, `at`: when it was available at the source, `ready_at`: when it had
    been delivered to the host, if that was measured.
    """

    id: Index
    kind: Kind
    text: Text | None = None
    bytes_b64: (
        Annotated[
            str, Strict(), Field(pattern=r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")
        ]
        | None
    ) = Field(default=None, description="standard base64, for bytes that are not UTF-8 on their own")
    at: Seconds
    ready_at: Seconds | None = None
    event_at: Seconds | None = None
    special: Flag = False
    media: Literal["audio", "image"] | None = Field(
        default=None, description="placeholder of an audio or image position; carries no bytes"
    )

    @model_validator(mode="after")
    def _one_spelling(self) -> RecordingToken:
        if self.text is not None and self.bytes_b64 is not None:
            raise ValueError("a token has text or bytes_b64, not both")
        if self.text is None and self.bytes_b64 is None and not self.special and self.media is None:
            raise ValueError("a token that is neither special nor media needs text or bytes_b64")
        if self.event_at is not None and self.event_at > self.at:
            raise ValueError("event_at must not be after at: nothing is available before it happens")
        return self


class AudioSpan(Model):
    """What consecutive audio tokens stand for: a stretch of a file, one token for each 50 ms of it."""

    token: Index = Field(description="index of the first among the request's computed tokens")
    path: Name
    start_s: Duration
    end_s: Duration
    channel: Index = 0

    @model_validator(mode="after")
    def _ends_after_start(self) -> AudioSpan:
        if self.end_s <= self.start_s:
            raise ValueError("end_s must be after start_s")
        return self


class RequestLine(Model):
    """One model request: its computed tokens, at the positions after the cached ones."""

    call: Index
    cached: Cached | None = None
    tokens: list[RecordingToken]
    states: Name | None = Field(default=None, description="safetensors with one row for each token")
    audio: list[AudioSpan] = Field(
        default_factory=list, description="what the audio tokens stand for, in order"
    )
