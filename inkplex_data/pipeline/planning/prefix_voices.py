"""Which voice speaks in which prefix, and which prefixes a corpus needs. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

_OF_CALL: Final = re.compile(r"call:(.*)@(\d+)-(\d+)us", re.DOTALL)


@dataclass(frozen=True)
class VoiceSample:
    """Where a prefix takes its voice from: a stretch of a call's agent channel, or a whole audio file, which the recipe
    names, or (`in_corpus`) a sidecar, and then `path` is relative to the corpus."""

    voice: str
    split: str | None
    call_id: str | None = None
    path: str | None = None
    start_us: int = 0
    end_us: int = 0
    in_corpus: bool = False

    def describe(self) -> str:
        if self.call_id is None:
            return f"{'corpus' if self.in_corpus else 'file'}:{self.path}"
        return f"call:{self.call_id}@{self.start_us}-{self.end_us}us"

    @classmethod
    def of_description(cls, voice: str, split: str | None, text: str) -> VoiceSample:
        """The sample that `describe` tells of: a stored prefix's `voice_source`."""
        if (call := _OF_CALL.fullmatch(text)) is None:
            kind, _, path = text.partition(":")
            return cls(voice, split, path=path, in_corpus=kind == "corpus")
        return cls(voice, split, call[1], None, int(call[2]), int(call[3]))

    def file(self, corpus: Path) -> Path | None:
        """The audio file, None for a stretch of a call. `corpus`: its folder."""
        if self.path is None:
            return None
        return corpus / self.path if self.in_corpus else Path(self.path)


@dataclass(frozen=True)
class PrefixPlan:
    """One prefix to encode: of a voice (or none) and a role (or none)."""

    prefix_id: str
    voice: VoiceSample | None
    role: str | None


@dataclass(frozen=True)
class VoiceCandidate:
    """A call's best stretch of agent speech, for use as another call's voice sample. `source`: its file, which parts of
    one call share."""

    call_id: str
    voice: str
    split: str
    family: str
    audio_sha256: str
    start_us: int
    end_us: int
    source: str = ""

    def is_heard_in(self, other: VoiceCandidate) -> bool:
        """Whether the sound of both may be the same."""
        return self.audio_sha256 == other.audio_sha256 or (self.source == other.source != "")


def voice_samples(candidates: Sequence[VoiceCandidate]) -> dict[str, VoiceSample]:
    """Per call, the sample its prefix uses: the longest stretch of another call by the same voice in the same split.

    A call of another family goes before one of the own, which may tell the same story, and never one with
    the same audio. Ties fall to the smaller call id. Calls without such a partner are absent.
    """
    groups: dict[tuple[str, str], list[VoiceCandidate]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.voice, candidate.split), []).append(candidate)
    chosen: dict[str, VoiceSample] = {}
    for members in groups.values():
        usable = sorted(
            (member for member in members if member.end_us > member.start_us),
            key=lambda member: (member.start_us - member.end_us, member.call_id),
        )
        # The best of each family, so that looking for another one never takes more than two steps.
        heads = list({member.family: member for member in reversed(usable)}.values())
        heads.sort(key=lambda member: (member.start_us - member.end_us, member.call_id))
        own: dict[str, list[VoiceCandidate]] = {}
        for member in usable:
            own.setdefault(member.family, []).append(member)
        for member in members:
            others = chain(
                (head for head in heads[:2] if head.family != member.family), own.get(member.family, ())
            )
            source = next((other for other in others if not other.is_heard_in(member)), None)
            if source is not None:
                chosen[member.call_id] = VoiceSample(
                    source.voice, source.split, source.call_id, None, source.start_us, source.end_us
                )
    return chosen


def prefix_id(voice: VoiceSample | None, role: str | None, digest: Mapping[str, str]) -> str:
    """Stable name of a prefix: a hash of its parts and of the configuration that encodes it (`digest`)."""
    body = [voice.describe() if voice else None, voice.voice if voice else None, role, dict(digest)]
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def role_text(role: str | None, past: Sequence[tuple[str, str]]) -> str | None:
    """The role prompt, and behind it the public conversation before the call, a turn a line."""
    turns = [f"{speaker.capitalize()}: {text}" for speaker, text in past]
    return "\n".join([*([role] if role else []), *turns]) or role
