"""Models of the small corpus files: manifest lines, alignment JSON, splits, and a store's description."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, JsonValue, Strict, Tag, model_validator

from inkplex_data.corpus.fields import (
    SECONDS_LIMIT,
    Duration,
    Index,
    JsonObject,
    Model,
    Name,
    Seconds,
    Sha256,
    Text,
)

Split = Literal["train", "validation", "test"]
Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class TwoFiles(Model):
    """The two sides of a call as two files, each with one channel unless `channels` names the one to take."""

    agent: Name
    caller: Name


class Channels(Model):
    """Zero-based channel index of each side, for files whose agent is not on the left."""

    agent: Index
    caller: Index


def _one_file_or_two(value: object) -> str:
    return "two" if isinstance(value, (dict, TwoFiles)) else "one"


AudioPath = Annotated[
    Annotated[Name, Tag("one")] | Annotated[TwoFiles, Tag("two")], Discriminator(_one_file_or_two)
]


Time = Annotated[float, Strict(), Field(ge=0, le=SECONDS_LIMIT, allow_inf_nan=False)]


def _ends_after_start(times: tuple[float, float]) -> tuple[float, float]:
    if times[1] <= times[0]:
        raise ValueError("must end after it starts")
    return times


TimeSpan = Annotated[tuple[Time, Time], AfterValidator(_ends_after_start)]


class ManifestEntry(Model):
    """One line of a manifest: one call. Paths are relative to the manifest's folder.

    `words`, `sidecar` and `recording` default to the files beside the audio (`STEM.json`,
    `STEM.sidecar.json`, `STEM.recording.jsonl`) where they exist; `null` means there is none.
    """

    id: Name
    path: AudioPath = Field(description="stereo file, or one mono file per side")
    words: Name | None = Field(default=None, description="transcript of the agent, in any supported format")
    sidecar: Name | None = None
    recording: Name | None = Field(default=None, description="task recording; several calls may name one")
    recording_starts_at: Seconds | None = Field(
        default=None, description="session time, in seconds, at which the call's audio begins; 0 by default"
    )
    family: Name | None = Field(
        default=None, description="calls that must share a split; by default those that share a recording"
    )
    split: Split | None = None
    role: Text | None = Field(default=None, description="public role prompt, spoken in the prefix")
    voice: Name | None = Field(default=None, description="identity of the agent's voice")
    channels: Channels | None = None
    duration: Duration | None = Field(None, description="stated length in seconds; the decoded audio decides")
    text_conditions: JsonObject | None = None
    clips: list[TimeSpan] | None = Field(
        default=None,
        min_length=1,
        description="[start, end] in seconds of the parts to build, each as a call of its own, instead of the whole",
    )

    @model_validator(mode="after")
    def _sides_differ(self) -> ManifestEntry:
        one_file = isinstance(self.path, str)
        if one_file and self.channels is not None and self.channels.agent == self.channels.caller:
            raise ValueError("agent and caller must be different channels of one file")
        return self


class MoshiEntry(ManifestEntry):
    """One line of a Moshi fine-tuning inventory (seeds/000, "Minimal dataset and private stream contract").

    It has no id. The fields of a manifest mean here what they mean there; others are allowed, as they are by the
    trainers that read the same file.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    id: None = None  # type: ignore[assignment]
    path: Name
    duration: JsonValue = None  # type: ignore[assignment]


Alignment = tuple[Text, TimeSpan, Text]


class AlignmentFile(Model):
    """Word JSON beside the audio: `{"alignments": [[text, [start_s, end_s], speaker], …]}`.

    `SPEAKER_MAIN` labels the agent. `confidence` runs parallel to `alignments`, because readers of the
    layout accept only triples. Other fields are allowed, for other tools to use.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    alignments: list[Alignment]
    text_conditions: JsonObject | None = None
    confidence: list[Annotated[float, Strict(), Field(ge=0, le=1)] | None] | None = None
    method: Text | None = None
    agent: Text | None = Field(default=None, description="the label that is the agent's")
    channels: dict[str, Text] | None = Field(default=None, description="label of each audio channel's words")

    @model_validator(mode="after")
    def _parallel(self) -> AlignmentFile:
        if self.confidence is not None and len(self.confidence) != len(self.alignments):
            raise ValueError("confidence must have one entry for each alignment")
        return self


class SplitsFile(Model):
    """Frozen assignment of families to splits."""

    schema_: Literal["inkplex/splits@1"] = Field(default="inkplex/splits@1", alias="schema")
    seed: int = 0
    fractions: dict[Literal["validation", "test"], Fraction] = Field(default_factory=dict)
    families: dict[Name, Split]


class StoreDescription(Model):
    """`store.json`: what a store was made with. It holds no clock times, so that rebuilds are byte-identical."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: Literal[1]
    configuration: JsonObject = Field(default_factory=dict)
    configuration_sha256: Sha256 | None = None
    codec: JsonObject | None = None
    tokenizer: JsonObject | None = None
    model: JsonObject | None = None
    tools: dict[str, Text] = Field(default_factory=dict)
