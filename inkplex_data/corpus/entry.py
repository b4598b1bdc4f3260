"""What every corpus reader yields: one call with the files that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inkplex_data.problems import Problem

CorpusKind = Literal["manifest", "moshi", "folder"]


@dataclass(frozen=True)
class AgentCaller:
    """The two sides of a call as two files."""

    agent: Path
    caller: Path


@dataclass(frozen=True)
class ChannelSpec:
    """Zero-based channel of each side, where it is not left = agent, right = caller."""

    agent: int
    caller: int


@dataclass(frozen=True)
class VoiceSegment:
    """What the agent of another call says in [start_us, end_us), for use as a voice sample."""

    call_id: str
    start_us: int
    end_us: int


@dataclass(frozen=True, order=True)
class Clip:
    """A part [start_us, end_us) of a call, on the timeline of its audio; 0 ≤ start < end."""

    start_us: int
    end_us: int


@dataclass(frozen=True)
class CallEntry:
    """One call of a corpus. Its files exist and lie inside the corpus; nothing in them was decoded yet.

    `recording_starts_at_us`: session time at which the call's audio begins.
    `family`: calls that must share a split. `source`: the audio's path as the corpus spells it.
    `duration_s` is what the corpus states; the decoded audio decides.
    `text_conditions` come from the line; those of a word file are `Transcript.text_conditions`.
    `where` is for messages: "manifest.jsonl:12". `swapped`: agent and caller are exchanged already in `audio`
    and `channels`, and not yet in words and sidecar (`corpus.swap`). `channels_assumed`: nobody named the channels;
    they are the usual ones (left = agent), exchanged. `marks`: what of its sidecar makes calls one family that have it
    in common (`families.joined.marks_of`). `named`: the files that its sidecar names (`named_files`), None for one not found.
    `clips`: the parts of the call that are to be built instead of it (`corpus.clips`). `clip`: the part that this entry
    is; its files are those of the whole call, and `recording_starts_at_us` is of the part. `voice_prompt`,
    `voice_segment`: where the prefix's voice sample comes from, where the corpus says; `past`: the public conversation
    before the call, (speaker, text) of each turn.
    """

    call_id: str
    audio: Path | AgentCaller
    channels: ChannelSpec | None
    words: Path | None
    sidecar: Path | None
    recording: Path | None
    recording_starts_at_us: int
    family: str
    split: str | None
    role: str | None
    voice: str | None
    text_conditions: dict[str, Any] | None
    duration_s: float | None
    source: str
    where: str = field(compare=False)
    swapped: bool = False
    channels_assumed: bool = False
    marks: tuple[str, ...] = field(default=(), compare=False)
    named: tuple[Path | None, ...] = ()
    clips: tuple[Clip, ...] = ()
    clip: Clip | None = None
    voice_prompt: Path | None = None
    voice_segment: VoiceSegment | None = None
    past: tuple[tuple[str, str], ...] = ()

    @property
    def audio_paths(self) -> tuple[Path, ...]:
        """The call's audio files: one, or the agent's and the caller's."""
        return (self.audio,) if isinstance(self.audio, Path) else (self.audio.agent, self.audio.caller)


@dataclass(frozen=True)
class Corpus:
    """The calls of a corpus in its own order, and the problems found while listing them.

    A refused call is in `problems` with severity `error` and not in `entries`.
    """

    root: Path
    kind: CorpusKind
    entries: tuple[CallEntry, ...]
    problems: tuple[Problem, ...]

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What was noted of the corpus as a whole, under no call's id."""
        return tuple(problem for problem in self.problems if not problem.call_id)
