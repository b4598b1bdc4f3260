"""What a build will make, decided before anything is encoded. Pure: no files, no clocks, no models.

Everything here is a function of the corpus, the scans and the recipe, so that a run that was
interrupted, or ran on other workers, plans the same shards and ends in the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from inkplex_data.store.frame_streams import frame_bytes

WORD_BYTES = 64
VERSIONS_PER_TOKEN = 18
VERSION_BYTES = 8
TOKEN_BYTES = 48


@dataclass(frozen=True)
class Sized:
    """Something to put in a shard, with an estimate of its stored size."""

    key: str
    size_bytes: int


def call_bytes(*, frames: int, words: int, tokens: int) -> int:
    """Estimated stored size of a call. `tokens` are those of its recording (0 without memory)."""
    return frames * frame_bytes() + words * WORD_BYTES + tokens * VERSIONS_PER_TOKEN * VERSION_BYTES


def recording_bytes(*, tokens: int, state_width: int, state_rows: int) -> int:
    """Stored size of a recording: its states dominate."""
    return tokens * (state_rows * state_width * 2 + TOKEN_BYTES)


def plan_shards(items: Iterable[Sized], limit_bytes: int) -> list[list[str]]:
    """Cut items, in their order, into shards of at most `limit_bytes`; a larger item gets its own shard."""
    shards: list[list[str]] = []
    filled_bytes = 0
    for item in items:
        if not shards or (shards[-1] and filled_bytes + item.size_bytes > limit_bytes):
            shards.append([])
            filled_bytes = 0
        shards[-1].append(item.key)
        filled_bytes += item.size_bytes
    return shards


def audio_in_two_families(
    calls: Iterable[tuple[str, str, str]], published: Iterable[tuple[str, str, str]] = ()
) -> dict[str, tuple[str, str, str]]:
    """Calls whose audio an earlier call of another family already has.

    `calls` and `published` are (call id, audio sha256, family); published ones count as earlier.
    Returns, per refused call id, the (call id, family) that holds the audio and the call's own family.
    The first in corpus order stays: with one of the two gone, no audio is in two splits.
    """
    owners: dict[str, tuple[str, str]] = {}
    for call_id, audio_sha256, family in published:
        owners.setdefault(audio_sha256, (call_id, family))
    refused: dict[str, tuple[str, str, str]] = {}
    for call_id, audio_sha256, family in calls:
        owner_id, owner_family = owners.setdefault(audio_sha256, (call_id, family))
        if owner_family != family:
            refused[call_id] = (owner_id, owner_family, family)
    return refused


@dataclass(frozen=True)
class VoiceSample:
    """Where a prefix takes its voice from: a stretch of a call's agent channel, or a whole audio file."""

    voice: str
    split: str | None
    call_id: str | None = None
    path: str | None = None
    start_us: int = 0
    end_us: int = 0

    def describe(self) -> str:
        if self.call_id is None:
            return f"file:{self.path}"
        return f"call:{self.call_id}@{self.start_us}-{self.end_us}us"


@dataclass(frozen=True)
class PrefixPlan:
    """One prefix to encode: of a voice (or none) and a role (or none)."""

    prefix_id: str
    voice: VoiceSample | None
    role: str | None


@dataclass(frozen=True)
class VoiceCandidate:
    """A call's best stretch of agent speech, for use as another call's voice sample."""

    call_id: str
    voice: str
    split: str
    family: str
    audio_sha256: str
    start_us: int
    end_us: int


def voice_samples(candidates: Sequence[VoiceCandidate]) -> dict[str, VoiceSample]:
    """Per call, the sample its prefix uses: the longest stretch of another recording by the same voice in the same split.

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
            source = next((other for other in others if other.audio_sha256 != member.audio_sha256), None)
            if source is not None:
                chosen[member.call_id] = VoiceSample(
                    source.voice, source.split, source.call_id, None, source.start_us, source.end_us
                )
    return chosen


def prefix_id(voice: VoiceSample | None, role: str | None, digest: Mapping[str, str]) -> str:
    """Stable name of a prefix: a hash of its parts and of the configuration that encodes it (`digest`)."""
    import hashlib
    import json

    body = [voice.describe() if voice else None, voice.voice if voice else None, role, dict(digest)]
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
