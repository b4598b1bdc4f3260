"""Which prefixes a build encodes, and which one each call uses. Pure but for the digests of voice files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import Scan
from inkplex_data.pipeline.planning.prefix_voices import (
    PrefixPlan,
    VoiceCandidate,
    VoiceSample,
    prefix_id,
    role_text,
    voice_samples,
)
from inkplex_data.pipeline.prefixes import PrefixJob
from inkplex_data.pipeline.stage import Build
from inkplex_data.pipeline.stamp import file_sha256
from inkplex_data.pipeline.target import Target


@dataclass(frozen=True)
class PrefixPlanner:
    """`scans`: of the calls to build. `voices`: stretches of stored calls that may lend their voice; `revoiced`: stored
    calls that need another prefix."""

    build: Build
    target: Target
    scans: Mapping[str, Scan]
    codec_sha256: str
    voices: Sequence[VoiceCandidate]
    revoiced: Sequence[CallEntry]

    def plan(
        self, entries: Sequence[CallEntry], splits: Mapping[str, str], by_id: Mapping[str, CallEntry]
    ) -> tuple[list[PrefixJob], dict[str, str], dict[str, VoiceSample]]:
        """The prefixes to encode, the one that each call uses, and the voice samples of the calls that have one."""
        wanted = self.build.recipe.prefix
        if wanted is None:
            return [], {}, {}
        candidates = [
            VoiceCandidate(
                entry.call_id,
                entry.voice,
                splits[entry.family],
                entry.family,
                scan.audio_sha256,
                scan.voice_start_us,
                scan.voice_end_us,
                entry.source,
            )
            for entry in entries
            if entry.voice is not None
            for scan in [self.scans[entry.call_id]]
        ]
        candidates += self.voices
        chosen = voice_samples(candidates) if wanted.voice == "auto" else {}
        if wanted.voice == "auto":
            for entry in [*entries, *self.revoiced]:
                if entry.voice_prompt is not None or entry.voice_segment is not None:
                    chosen.pop(entry.call_id, None)
                    if (sample := self._prompted(entry, splits, by_id)) is not None:
                        chosen[entry.call_id] = sample
        digest = {"codec": self.codec_sha256, "tokenizer": str(self.build.recipe.text.tokenizer)}
        plans: dict[str, PrefixPlan] = {}
        prefix_of = {}
        roles: dict[str | None, None] = {}
        for entry in [*entries, *self.revoiced]:
            role = entry.role if wanted.role else None
            role = role_text(role, entry.past if wanted.past else ())
            roles[role] = None
            voice = chosen.get(entry.call_id)
            file = voice.file(self.build.corpus_root) if voice is not None else None
            own = {"file": file_sha256(file)} if file is not None else {}
            name = prefix_id(voice, role, {**digest, **own})
            plans.setdefault(name, PrefixPlan(name, voice, role))
            prefix_of[entry.call_id] = name
        for voice_name, path in sorted(wanted.voices.items()):
            sample = VoiceSample(voice_name, None, path=path)
            for role in roles:
                name = prefix_id(sample, role, {**digest, "file": file_sha256(Path(path))})
                plans.setdefault(name, PrefixPlan(name, sample, role))
        stored = set(self.target.prefixes["prefix_id"].to_list())
        jobs = [self._job(plan, by_id) for plan in plans.values() if plan.prefix_id not in stored]
        return jobs, prefix_of, chosen

    def _job(self, plan: PrefixPlan, by_id: Mapping[str, CallEntry]) -> PrefixJob:
        voice = plan.voice
        return PrefixJob(
            build=self.build,
            plan=plan,
            source=CallInput.of(by_id[voice.call_id]) if voice and voice.call_id else None,
            voice_file=voice.file(self.build.corpus_root) if voice else None,
        )

    def _prompted(
        self, entry: CallEntry, splits: Mapping[str, str], by_id: Mapping[str, CallEntry]
    ) -> VoiceSample | None:
        """The voice sample that a call's sidecar names; None for a stretch of a call that is not built, is in another
        split, or has the call's own sound."""
        segment, file = entry.voice_segment, entry.voice_prompt
        if segment is None:
            assert file is not None
            path = os.path.relpath(file, self.build.corpus_root)
            return VoiceSample(entry.voice or file.stem, None, path=path, in_corpus=True)
        other = by_id.get(segment.call_id)
        if other is None or other.source == entry.source:
            return None
        of_family = {**self.target.frozen_splits, **splits}
        if of_family.get(other.family) != of_family.get(entry.family):
            return None
        return VoiceSample(
            entry.voice or other.voice or other.call_id,
            of_family[entry.family],
            other.call_id,
            None,
            segment.start_us,
            segment.end_us,
        )
