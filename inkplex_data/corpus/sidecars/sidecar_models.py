"""Models of the sidecar: what is known about a call besides its audio.

Groups and meanings: seeds/000, "Minimal dataset and private stream contract". Times are in seconds. Once a sidecar is
read (`read_sidecar`), the clip's first sample is zero, and what happened before the clip has a negative time; a file may
give them on the timeline of the clip's source instead (`audio.times`). Null always means unknown, an empty list means
known to be none.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, Strict, field_validator, model_validator

from inkplex_data.corpus.fields import (
    Count,
    Duration,
    Flag,
    Interval,
    JsonObject,
    Model,
    Name,
    Seconds,
    Sha256,
    Text,
)
from inkplex_data.corpus.models import Split
from inkplex_data.corpus.sidecars.history_models import History, Spans

Timed = TypeVar("Timed", "Claim", "Target")
Unit = Annotated[float, Strict(), Field(ge=0, le=1)]


class FileReference(Model):
    """A file and the digest of its bytes."""

    path: Name
    sha256: Sha256 | None = None


class Identity(Model):
    """What the clip is and where it comes from. Duplicates and forks of one source share `family`.

    Calls that have `source_id`, `conversation_id`, `family` or the `sha256` of a reference in common are one family,
    and so are those that are linked by way of others: one split has all of them.
    """

    clip_id: Name
    source_id: Name | None = None
    conversation_id: Name | None = None
    family: Name | None = None
    split: Split | None = None
    references: list[FileReference] = Field(default_factory=list)


class Transform(Model):
    """Something done to the waveform, such as resampling or augmentation, with what is needed to redo it."""

    name: Name
    seed: Count | None = None
    settings: JsonObject = Field(default_factory=dict)


class Channel(Model):
    """One side of the call. `missing` means that it was not recorded, which is not the same as silence."""

    index: Count | None = None
    origin: Literal["recorded", "synthetic", "actual_model_output", "constructed", "missing"] | None = None
    voice: Name | None = None


class Audio(Model):
    """The clip's waveform: the file `path`, its digest, and `samples` at `sample_rate_hz`, compared with the call's own.

    Of a call in two files these are the one that `path` names, or either.
    """

    path: Name | None = Field(default=None, description="name of the call's audio file")
    sha256: Sha256 | None = Field(default=None, description="digest of that file's bytes")
    sample_rate_hz: Annotated[int, Strict(), Field(ge=1, le=2**31 - 1)] | None = None
    samples: Count | None = None
    offset_s: Duration = Field(default=0.0, description="where the clip begins in the source it was cut from")
    times: Literal["source", "clip"] = Field(
        default="source",
        description="what all times of this sidecar count from, `recording_starts_at_s` apart: the beginning of the "
        "source, so that `offset_s` is taken off them, or the clip's first sample; a crop writes `clip`",
    )
    agent: Channel = Channel()
    caller: Channel = Channel()
    transforms: list[Transform] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rate_with_samples(self) -> Audio:
        if self.samples is not None and self.sample_rate_hz is None:
            raise ValueError("samples need sample_rate_hz")
        return self


class SidecarWord(Interval):
    """One aligned word."""

    text: Text
    speaker: Name = "SPEAKER_MAIN"
    confidence: Unit | None = None
    uncertainty_s: Duration | None = Field(
        default=None,
        description="how far its times may be off; above the recipe's limit it carries no text loss",
    )
    mismatch: Flag = Field(default=False, description="known to differ from what is heard")


class Words(Model):
    """What the agent says and when, how this was determined, and whether it matches the audio.

    A `known` mismatch takes text and agent audio out of the loss: in the words marked so and in `mismatches`, or in the
    whole call where there are neither.
    """

    transcript: Text | None = None
    items: list[SidecarWord] = Field(default_factory=list)
    main_speaker: Name = "SPEAKER_MAIN"
    method: Text | None = None
    provenance: Text | None = Field(default=None, description="where the target text comes from")
    mismatch: Literal["none", "known", "unknown"] = "unknown"
    mismatches: list[Interval] = Field(default_factory=list, description="where text and audio differ")

    @model_validator(mode="after")
    def _known_where_named(self) -> Words:
        if self.mismatch != "known" and (self.mismatches or any(word.mismatch for word in self.items)):
            raise ValueError("words and intervals that mismatch need `mismatch: known`")
        return self


class PastTurn(Model):
    """One turn of the public conversation before the clip."""

    speaker: Literal["agent", "caller"]
    text: Text


class CallSegment(Interval):
    """A stretch of another call of the corpus, in seconds of its audio."""

    call: Name


class Prompt(Model):
    """What the agent may know from the start; never a future answer or a private solution.

    The prefix's voice sample is `voice_prompt` or `voice_segment`, where one is given: a file of one voice, its path
    relative to the sidecar's folder, or what the agent of another call says.
    """

    role: Text | None = None
    voice: Name | None = None
    voice_prompt: FileReference | None = None
    voice_segment: CallSegment | None = None
    past: list[PastTurn] = Field(
        default_factory=list,
        description="spoken by nobody; text of the prefix where the recipe has `prefix.past`",
    )

    @model_validator(mode="after")
    def _one_voice(self) -> Prompt:
        if self.voice_prompt is not None and self.voice_segment is not None:
            raise ValueError("give voice_prompt or voice_segment, not both")
        return self


class StatePart(FileReference):
    """A file of hidden states: which streams of the model, of which type and shape."""

    dtype: Text
    shape: list[Count]
    streams: list[Text]


class ReasoningModel(Model):
    """The model whose work the call reads, and the exact input it had."""

    model: Name
    tokenizer: Name | None = None
    runtime_profile: Text | None = None
    input_sha256: Sha256 | None = None
    states: list[StatePart] = Field(default_factory=list)


class ClockMapping(Model):
    """How session time became clip time. An invented schedule is `constructed`, and stays so."""

    kind: Literal["measured", "constructed"]
    recording_starts_at_s: Seconds = Field(description="session time of the clip's first sample")
    note: Text | None = None


class Available(Model):
    """Something that arrives: available at the source at `available_at_s`, delivered at `ready_at_s` if that was measured."""

    id: Name
    available_at_s: Seconds
    ready_at_s: Seconds | None = None

    @property
    def arrival_s(self) -> float:
        """When a frame may first see it: the later of the two times."""
        return self.available_at_s if self.ready_at_s is None else max(self.available_at_s, self.ready_at_s)


class PrivateUpdate(Available):
    """A step of the private stream: rows [first, end) of the states, and the events they come from."""

    rows: Annotated[list[Count], Field(min_length=2, max_length=2)]
    source_events: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rows_in_order(self) -> PrivateUpdate:
        if self.rows[1] < self.rows[0]:
            raise ValueError("rows must be [first, end) with first ≤ end")
        return self


class PrivateUpdates(Model):
    """The private stream in the order of its updates, and the clock that placed it on the clip."""

    mapping: ClockMapping | None = None
    updates: list[PrivateUpdate] = Field(default_factory=list)


OLDER_STATUS: Final = {"completed": "succeeded", "contradicted": "superseded"}
"""Names that sidecars may still use, and those that they are read as."""


class EvidenceItem(Available):
    """A tool call, result or error that supports what is said.

    `superseded_by` names the item that took its place: from the arrival of that one on nothing may rest on it.
    """

    kind: Literal["tool_call", "tool_result", "tool_error", "statement"]
    reference: Text | None = None
    status: Literal[
        "pending", "succeeded", "failed", "superseded", "unknown", "completed", "contradicted"
    ] = Field(default="unknown", description="completed is read as succeeded, contradicted as superseded")
    superseded_by: Name | None = None
    attribution: Literal["source", "reconstruction", "execution"] | None = None

    @field_validator("status")
    @classmethod
    def _newer_name(cls, status: str) -> str:
        return OLDER_STATUS.get(status, status)


class Claim(Model):
    """Something the agent says, and the evidence for it. Without times it applies to the whole clip."""

    text: Text
    start_s: Seconds | None = None
    end_s: Seconds | None = None
    supported_by: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _both_times(self) -> Claim:
        return _both_or_none(self)


class Evidence(Model):
    """The evidence available to the agent, and the claims that rest on it."""

    items: list[EvidenceItem] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)


class Target(Model):
    """Speech to teach. `cut` says that the clip holds only a part of it."""

    text: Text | None = None
    start_s: Seconds | None = None
    end_s: Seconds | None = None
    audio: FileReference | None = None
    decision: Literal["quiet", "clarify", "speak"] | None = None
    status: Literal["complete", "interrupted", "unknown"] = "unknown"
    writer: Text | None = None
    cut: Flag = False

    @model_validator(mode="after")
    def _both_times(self) -> Target:
        return _both_or_none(self)


class Targets(Model):
    """The speech to teach, and where generation is to begin in evaluation."""

    items: list[Target] = Field(default_factory=list)
    response_start_s: Seconds | None = None


class Excluded(Interval):
    """A stretch in which a modality is missing or uncertain and carries no loss."""

    modality: Literal["text", "agent", "caller"]
    reason: Literal["missing", "uncertain", "padding", "not_eligible", "cut_word"]


class Valid(Model):
    """Stretches in which a modality is known to be right; null means the whole clip."""

    text: Spans = None
    agent: Spans = None
    caller: Spans = None


class PermittedUpdate(Model):
    """An interval [start, end) in which prediction frames may read an update; without `end_s` it does not end."""

    update: Name
    start_s: Seconds
    end_s: Seconds | None = None

    @model_validator(mode="after")
    def _ends_after_start(self) -> PermittedUpdate:
        if self.end_s is not None and self.end_s < self.start_s:
            raise ValueError("end_s must not be before start_s")
        return self


class Masks(Model):
    """What may carry loss, and which private updates each frame may read.

    Without a list of permitted updates, all tokens of the recording may be read from their arrival on. With one, no
    frame reads tokens of updates that it does not name, nor those of no update: an empty list permits nothing.
    """

    valid: Valid = Valid()
    excluded: list[Excluded] = Field(default_factory=list)
    permitted_updates: list[PermittedUpdate] | None = None


class Sidecar(Model):
    """Everything known about a clip besides its audio. Only `schema` and `identity` are required."""

    schema_: Literal["inkplex/sidecar@1"] = Field(alias="schema")
    identity: Identity
    audio: Audio | None = None
    words: Words | None = None
    prompt: Prompt | None = None
    reasoning_model: ReasoningModel | None = None
    private_updates: PrivateUpdates | None = None
    evidence: Evidence | None = None
    targets: Targets | None = None
    history: History | None = None
    masks: Masks | None = None

    @model_validator(mode="after")
    def _references(self) -> Sidecar:
        updates = _unique("private_updates/updates", self.private_updates and self.private_updates.updates)
        evidence = _unique("evidence/items", self.evidence and self.evidence.items)
        _unique("history/segments", self.history and self.history.segments)
        for item in self.evidence.items if self.evidence else ():
            if item.superseded_by is not None:
                _known("evidence/items", [item.superseded_by], evidence - {item.id})
        for claim in self.evidence.claims if self.evidence else ():
            _known("evidence/claims", claim.supported_by, evidence)
        for permitted in (self.masks.permitted_updates if self.masks else None) or ():
            _known("masks/permitted_updates", [permitted.update], updates)
        return self


def _both_or_none(item: Timed) -> Timed:
    if (item.start_s is None) != (item.end_s is None):
        raise ValueError("start_s and end_s must be given together")
    if item.start_s is not None and item.end_s is not None and item.end_s < item.start_s:
        raise ValueError("end_s must not be before start_s")
    return item


def _unique(place: str, items: object) -> set[str]:
    ids: set[str] = set()
    for item in items if isinstance(items, list) else ():
        if item.id in ids:
            raise ValueError(f"{place}: the id {item.id!r} occurs twice")
        ids.add(item.id)
    return ids


def _known(place: str, names: list[str], ids: set[str]) -> None:
    for name in names:
        if name not in ids:
            raise ValueError(f"{place}: {name!r} names nothing in this sidecar")
