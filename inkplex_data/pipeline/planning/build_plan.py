"""From scans to jobs: splits, recordings, prefixes, wrong-memory partners, and which call goes into which shard."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final

import polars as pl

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.families.joined import Joined, Link, family_links, join_families, marks_of
from inkplex_data.corpus.families.splits import assign_splits, given_splits, linked_families
from inkplex_data.corpus.sidecars.sidecar_models import Identity
from inkplex_data.memory.partners import Candidate, PartnerRings, Partners
from inkplex_data.memory.twins import root_of
from inkplex_data.pipeline.calls.build_call import CallJob, MemoryRef
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import Scan, ScanJob
from inkplex_data.pipeline.outcome import Refusals
from inkplex_data.pipeline.planning.prefix_plan import PrefixPlanner
from inkplex_data.pipeline.planning.prefix_voices import (
    VoiceCandidate,
)
from inkplex_data.pipeline.planning.same_audio import audio_in_two_families, recordings_in_two_families
from inkplex_data.pipeline.planning.sharding import Sized, call_bytes
from inkplex_data.pipeline.prefixes import PrefixJob
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.stage import Build
from inkplex_data.pipeline.target import Target
from inkplex_data.problems import Problem, ProblemLog

PLAN_NOTES: Final = ("family-frozen", "family-joined", "prefix-no-voice")
"""Codes of what the plan has to say of a call (`notes`)."""


@dataclass(frozen=True)
class BuildPlan:
    """Everything that a build will write. `jobs` in plan order; `recordings` are those not in the store yet.

    `prefix_of`: per call to build or to give another prefix, its prefix. `renoted`: what there is to say of the latter.
    """

    jobs: tuple[CallJob, ...]
    recordings: tuple[RecordingJob, ...]
    found: Mapping[Path, FoundRecording]
    prefixes: tuple[PrefixJob, ...]
    prefix_of: Mapping[str, str]
    partners: Partners
    renoted: Mapping[str, tuple[Problem, ...]]

    def sized(self, job: CallJob) -> Sized:
        """The call with its size, for cutting shards."""
        recording = self.found.get(job.entry.recording) if job.memory and job.entry.recording else None
        tokens = recording.tokens if recording is not None else 0
        return Sized(job.key, call_bytes(frames=job.scan.frames, words=job.scan.words, tokens=tokens))


@dataclass(frozen=True)
class Planner:
    """Decides what a build makes of the calls that were scanned. `found`: the recordings that could be read.

    Calls that cannot be built go to `refusals`; all else is a function of the fields.
    `call_ix`: numbers that calls have already. `voices`: stretches of stored calls that may lend their voice;
    `revoiced`: stored calls that need another prefix.
    """

    build: Build
    target: Target
    scans: Mapping[str, Scan]
    found: Mapping[Path, FoundRecording]
    refusals: Refusals
    codec_sha256: str
    call_ix: Mapping[str, int] = field(default_factory=dict)
    voices: Sequence[VoiceCandidate] = ()
    revoiced: Sequence[CallEntry] = ()

    def plan(self, entries: Sequence[CallEntry], listed: Mapping[str, CallEntry] | None = None) -> BuildPlan:
        """Decide everything about `entries`, which are in corpus order. `listed`: all calls of the corpus, by id."""
        able = [
            entry for entry in entries if entry.call_id in self.scans and entry.call_id not in self.refusals
        ]
        scanned = {entry.call_id: entry for entry in able}
        able, kin = self._joined(able, self._related(able), "family-contradicts")
        able = self._without_shared_audio(able)
        able, same = self._joined(able, self._same_recordings(able), "audio-in-two-families")
        able = self._with_one_recording_per_id(able)
        reasons = {
            entry.call_id: reason
            for entry in able
            if (reason := _reason(scanned[entry.call_id].family, kin, same)) is not None
        }
        splits = self._splits(able)
        by_id = {**(listed or {}), **{entry.call_id: entry for entry in able}}
        prefixes, prefix_of, chosen = PrefixPlanner(
            self.build, self.target, self.scans, self.codec_sha256, self.voices, self.revoiced
        ).plan(able, splits, by_id)
        stored = self.target.calls.select("call_id", "family", "family_reason").rows_by_key(
            "call_id", unique=True
        )
        new_ix = count(self.target.next_ix["calls"])
        jobs = [
            CallJob(
                build=self.build,
                scanned=ScanJob(build=self.build, given=CallInput.of(scanned[entry.call_id])),
                scan=self.scans[entry.call_id],
                call_ix=self.call_ix[entry.call_id] if entry.call_id in self.call_ix else next(new_ix),
                family=entry.family,
                split=splits[entry.family],
                prefix_id=prefix_of.get(entry.call_id),
                memory=memory_of(self.build, self._recording(entry)),
                notes=(
                    *self.refusals.notes(entry.call_id),
                    *notes(
                        self.build,
                        scanned[entry.call_id],
                        splits[entry.family],
                        family=entry.family,
                        reason=reasons.get(entry.call_id),
                        has_voice=entry.call_id in chosen,
                    ),
                ),
                family_reason=reasons.get(entry.call_id),
            )
            for entry in able
        ]
        used = {entry.recording for entry in able}
        known = set(self.target.recordings["recording_id"].to_list())
        return BuildPlan(
            jobs=tuple(jobs),
            recordings=tuple(
                RecordingJob(build=self.build, path=path)
                for path, recording in self.found.items()
                if path in used and recording.recording_id not in known
            ),
            found=self.found,
            prefixes=tuple(prefixes),
            prefix_of=prefix_of,
            partners=self._partners(able, splits),
            renoted={
                entry.call_id: notes(
                    self.build,
                    entry,
                    self.target.frozen_splits[family],
                    family=family,
                    reason=reason,
                    has_voice=entry.call_id in chosen,
                )
                for entry in self.revoiced
                for family, reason in [stored[entry.call_id]]
            },
        )

    def _recording(self, entry: CallEntry) -> FoundRecording | None:
        return self.found.get(entry.recording) if entry.recording is not None else None

    @cached_property
    def _branches(self) -> dict[str, tuple[str, int]]:
        names = ["recording_id", "branch_of", "branch_at_us"]
        stored = self.target.recordings.select(names).drop_nulls().iter_rows()
        return {recording: (source, at_us) for recording, source, at_us in stored} | {
            recording.recording_id: (recording.branch_of, recording.branch_at_us)
            for recording in self.found.values()
            if recording.branch_of is not None and recording.branch_at_us is not None
        }

    def _without_shared_audio(self, entries: list[CallEntry]) -> list[CallEntry]:
        stored = self.target.calls
        published = stored.select("call_id", "audio_sha256", "family").iter_rows()
        calls = [(entry.call_id, self.scans[entry.call_id].audio_sha256, entry.family) for entry in entries]
        turned = {scan.audio_sha256: scan.exchanged_sha256 for scan in self.scans.values()}
        found = audio_in_two_families(calls, published, exchanged=turned)
        for call_id, (owner, owner_family, family) in found.items():
            what = f"has the same audio as call {owner!r} of family {owner_family!r}, and is of family {family!r}"
            self.refusals.add(call_id, "audio-in-two-families", what)
        return [entry for entry in entries if entry.call_id not in self.refusals]

    def _joined(
        self, entries: list[CallEntry], links: Iterable[Link], code: str
    ) -> tuple[list[CallEntry], Joined]:
        """Families that `links` connect become one, so that no split has what another has.

        Refused, with `code`, is a call where the corpus or the store puts the two families in different splits.
        """
        joined = join_families(
            links,
            frozen=self.target.frozen_splits,
            given={**given_splits(entries), **self.target.frozen_splits},
            together=self._together(entries),
        )
        for call_id, what in joined.refused.items():
            self.refusals.add(call_id, code, what)
        kept = [
            replace(entry, family=joined.part_of.get(entry.family, entry.family))
            for entry in entries
            if entry.call_id not in self.refusals
        ]
        return kept, joined

    def _related(self, entries: list[CallEntry]) -> list[Link]:
        """Calls of one source, conversation or reference, those that are published too."""
        identities = self.target.calls.select(
            "call_id", "family", pl.col("sidecar").str.json_path_match("$.identity")
        )
        published = [
            (call_id, family, marks_of(Identity.model_validate_json(identity)))
            for call_id, family, identity in identities.drop_nulls().iter_rows()
        ]
        return family_links(((entry.call_id, entry.family, entry.marks) for entry in entries), published)

    def _same_recordings(self, entries: list[CallEntry]) -> list[Link]:
        """One recording, coded otherwise."""
        stored = self.target.calls
        recorded: Iterable[tuple[str, bytes | None, str]] = ()
        # Stores that were begun before calls had fingerprints go by the digest alone.
        if "audio_fingerprint" in stored.columns:
            recorded = stored.select("call_id", "audio_fingerprint", "family").iter_rows()
        heard = [
            (entry.call_id, base64.b64decode(self.scans[entry.call_id].audio_fingerprint), entry.family)
            for entry in entries
        ]
        return [
            Link(call_id, family, owner, owner_family, "the same recording, coded otherwise,")
            for call_id, (owner, owner_family, family) in recordings_in_two_families(heard, recorded).items()
        ]

    def _with_one_recording_per_id(self, entries: list[CallEntry]) -> list[CallEntry]:
        """Refuse calls whose recording has the id of another file's; equal bytes under one id are one recording."""
        stored = self.target.recordings.select("recording_id", "content_sha256").iter_rows()
        owners = {recording_id: (sha256, "the store") for recording_id, sha256 in stored}
        for entry in entries:
            recording = self._recording(entry)
            if recording is None:
                continue
            own = (recording.sha256, str(entry.recording))
            sha256, owner = owners.setdefault(recording.recording_id, own)
            if sha256 != recording.sha256:
                what = (
                    f"its recording {recording.recording_id!r} differs from the one with that id in {owner}"
                )
                self.refusals.add(entry.call_id, "recording-id-twice", what, item=Path(own[1]).name)
        return [entry for entry in entries if entry.call_id not in self.refusals]

    def _together(self, entries: Sequence[CallEntry]) -> list[set[str]]:
        """Families that lie in one split because of their task recordings."""
        # Twins tell the same story up to their fork, so they must not be divided between training and test.
        by_root: dict[str, set[str]] = {}
        for entry in entries:
            if (recording := self._recording(entry)) is not None:
                by_root.setdefault(root_of(self._branches, recording.recording_id), set()).add(entry.family)
        twins = [families for families in by_root.values() if len(families) > 1]
        return [*linked_families(entries), *twins]

    def _splits(self, entries: Sequence[CallEntry]) -> dict[str, str]:
        """Family → split."""
        wanted = self.build.recipe.splits
        return assign_splits(
            [entry.family for entry in entries],
            self.target.frozen_splits,
            {"validation": wanted.validation, "test": wanted.test},
            wanted.seed,
            given=given_splits(entries),
            together=self._together(entries),
        )

    def _partners(self, entries: Sequence[CallEntry], splits: Mapping[str, str]) -> Partners:
        candidates = [
            Candidate(entry.call_id, entry.family, splits[entry.family], own.recording_id if own else None)
            for entry in entries
            for own in [self._recording(entry)]
        ]
        stored = self.target.calls.select("call_id", "family", "split", "recording_id")
        candidates += [Candidate(*row) for row in stored.iter_rows()]
        rings = PartnerRings(candidates, seed=self.build.recipe.splits.seed, branches=self._branches)
        return Partners(
            rings, stored=dict(self.target.calls.select("call_id", "wrong_memory_of").iter_rows())
        )


def memory_of(build: Build, recording: FoundRecording | None) -> MemoryRef | None:
    """How a call's job names its recording."""
    if recording is None:
        return None
    folder = RECORDING.folder(RecordingJob(build=build, path=Path(recording.path)))
    return MemoryRef(recording.recording_id, folder, recording.sha256, recording.read_model())


def _reason(family: str, *joins: Joined) -> str | None:
    """Why calls of `family` are of another one now."""
    reasons = []
    for joined in joins:
        if family in joined.why:
            reasons.append(joined.why[family])
        family = joined.part_of.get(family, family)
    return "; ".join(reasons) or None


def notes(
    build: Build, entry: CallEntry, split: str, *, family: str, reason: str | None, has_voice: bool
) -> tuple[Problem, ...]:
    """What the plan decided otherwise than the corpus may expect. `family`: the one that the call is stored in, and the
    `reason` where it is another than the corpus says."""
    log = ProblemLog(entry.call_id)
    if family != entry.family:
        why = f": {reason}" if reason is not None else ""
        log.add("family-joined", f"its family {entry.family!r} is part of family {family!r}{why}")
    if entry.split not in (None, split):
        what = f"family {family!r} stays in split {split!r}; the corpus asks for {entry.split!r}"
        log.add("family-frozen", what)
    prefix = build.recipe.prefix
    if prefix is not None and prefix.voice == "auto" and not has_voice:
        if entry.voice_segment is not None:
            what = f"its voice segment is of {entry.voice_segment.call_id!r}, which is no other call built in split {split!r}"
            log.add("prefix-no-voice", what)
        elif entry.voice is not None:
            log.add("prefix-no-voice", f"voice {entry.voice!r} has no other call in split {split!r}")
    return tuple(log)
