"""From scans to jobs: splits, recordings, prefixes, wrong-memory partners, and which call goes into which shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.splits import assign_splits, given_splits, linked_families
from inkplex_data.memory.partners import Candidate, choose_partners
from inkplex_data.memory.twins import root_of
from inkplex_data.pipeline.calls.build_call import CallJob, MemoryRef
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import Scan, ScanJob
from inkplex_data.pipeline.outcome import Refusals
from inkplex_data.pipeline.planning.prefix_voices import (
    PrefixPlan,
    VoiceCandidate,
    VoiceSample,
    prefix_id,
    voice_samples,
)
from inkplex_data.pipeline.planning.same_audio import audio_in_two_families
from inkplex_data.pipeline.planning.sharding import Sized, call_bytes, plan_shards
from inkplex_data.pipeline.prefixes import PrefixJob
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.stage import Build
from inkplex_data.pipeline.stamp import file_sha256
from inkplex_data.pipeline.target import Target
from inkplex_data.problems import Problem, ProblemLog


@dataclass(frozen=True)
class BuildPlan:
    """Everything that a build will write, in order. `recordings` are those not in the store yet."""

    shards: Mapping[int, tuple[CallJob, ...]]
    recordings: tuple[RecordingJob, ...]
    found: Mapping[Path, FoundRecording]
    prefixes: tuple[PrefixJob, ...]

    @property
    def jobs(self) -> list[CallJob]:
        return [job for members in self.shards.values() for job in members]


def make_plan(
    entries: Sequence[CallEntry],
    scans: Mapping[str, Scan],
    found: Mapping[Path, FoundRecording],
    target: Target,
    build: Build,
    *,
    refusals: Refusals,
    codec_sha256: str,
) -> BuildPlan:
    """Decide everything. Calls that cannot be built go to `refusals`; the plan is a function of its arguments."""
    recipe = build.recipe
    able = [entry for entry in entries if entry.call_id in scans and entry.call_id not in refusals]
    able = _without_shared_audio(able, scans, target, refusals)
    able = _with_one_recording_per_id(able, found, target, refusals)
    splits = _splits(able, found, target, recipe)
    split_of = {entry.call_id: splits[entry.family] for entry in able}
    prefixes, prefix_of, chosen = _prefixes(able, scans, split_of, target, build, codec_sha256=codec_sha256)
    partner_of = _partners(able, found, split_of, target, recipe)
    memory_of = {
        path: _memory(recording, RecordingJob(build=build, path=path)) for path, recording in found.items()
    }
    first_ix = target.next_index(target.calls, "call_ix")
    jobs = {}
    for index, entry in enumerate(able):
        memory = memory_of.get(entry.recording) if entry.recording is not None else None
        jobs[entry.call_id] = CallJob(
            build=build,
            scanned=ScanJob(build=build, given=CallInput.of(entry)),
            scan=scans[entry.call_id],
            call_ix=first_ix + index,
            family=entry.family,
            split=split_of[entry.call_id],
            prefix_id=prefix_of.get(entry.call_id),
            wrong_memory_of=partner_of.get(entry.call_id),
            memory=memory,
            notes=_notes(entry, splits, recipe, has_voice=entry.call_id in chosen),
        )
    sized = [
        Sized(call_id, call_bytes(frames=job.scan.frames, words=job.scan.words, tokens=_tokens(job, found)))
        for call_id, job in jobs.items()
    ]
    shards = plan_shards(sized, recipe.store.shard_bytes)
    first_shard = target.fixed["calls"]
    used = {entry.recording for entry in able if entry.recording in found}
    known = set(target.recordings["recording_id"].to_list())
    return BuildPlan(
        shards={
            first_shard + number: tuple(jobs[call_id] for call_id in members)
            for number, members in enumerate(shards)
        },
        recordings=tuple(
            RecordingJob(build=build, path=path)
            for path, recording in found.items()
            if path in used and recording.recording_id not in known
        ),
        found=found,
        prefixes=tuple(prefixes),
    )


def _without_shared_audio(
    entries: list[CallEntry], scans: Mapping[str, Scan], target: Target, refusals: Refusals
) -> list[CallEntry]:
    published = target.calls.select("call_id", "audio_sha256", "family").iter_rows()
    calls = [(entry.call_id, scans[entry.call_id].audio_sha256, entry.family) for entry in entries]
    for call_id, (owner, owner_family, family) in audio_in_two_families(calls, published).items():
        message = (
            f"has the same audio as call {owner!r} of family {owner_family!r}, and is of family {family!r}"
        )
        refusals.add(call_id, "audio-in-two-families", message)
    return [entry for entry in entries if entry.call_id not in refusals]


def _with_one_recording_per_id(
    entries: list[CallEntry], found: Mapping[Path, FoundRecording], target: Target, refusals: Refusals
) -> list[CallEntry]:
    """Refuse calls whose recording has the id of another file's; equal bytes under one id are the same recording."""
    owners = {
        recording_id: (sha256, "the store")
        for recording_id, sha256 in target.recordings.select("recording_id", "content_sha256").iter_rows()
    }
    for entry in entries:
        recording = found.get(entry.recording) if entry.recording is not None else None
        if recording is None:
            continue
        sha256, owner = owners.setdefault(recording.recording_id, (recording.sha256, str(entry.recording)))
        if sha256 != recording.sha256:
            message = f"its recording {recording.recording_id!r} differs from the one with that id in {owner}"
            refusals.add(
                entry.call_id,
                "recording-id-twice",
                message,
                item=str(entry.recording.name) if entry.recording else "",
            )
    return [entry for entry in entries if entry.call_id not in refusals]


def _splits(
    entries: Sequence[CallEntry],
    found: Mapping[Path, FoundRecording],
    target: Target,
    recipe: Recipe,
) -> dict[str, str]:
    # Twins tell the same story up to their fork, so they must not be divided between training and test.
    branches = _branches(found)
    by_root: dict[str, set[str]] = {}
    for entry in entries:
        recording = found.get(entry.recording) if entry.recording is not None else None
        if recording is not None:
            by_root.setdefault(root_of(branches, recording.recording_id), set()).add(entry.family)
    twins = [families for families in by_root.values() if len(families) > 1]
    return assign_splits(
        [entry.family for entry in entries],
        target.frozen_splits,
        {"validation": recipe.splits.validation, "test": recipe.splits.test},
        recipe.splits.seed,
        given=given_splits(entries),
        together=[*linked_families(entries), *twins],
    )


def _notes(
    entry: CallEntry, splits: Mapping[str, str], recipe: Recipe, *, has_voice: bool
) -> tuple[Problem, ...]:
    """What the plan decided otherwise than the corpus may expect."""
    log = ProblemLog(entry.call_id)
    split = splits[entry.family]
    if entry.split not in (None, split):
        log.add(
            "family-frozen",
            f"family {entry.family!r} stays in split {split!r}; the corpus asks for {entry.split!r}",
        )
    wants_voice = recipe.prefix is not None and recipe.prefix.voice == "auto" and entry.voice is not None
    if wants_voice and not has_voice:
        log.add("prefix-no-voice", f"voice {entry.voice!r} has no other call in split {split!r}")
    return tuple(log)


def _branches(found: Mapping[Path, FoundRecording]) -> dict[str, tuple[str, int]]:
    return {
        recording.recording_id: (recording.branch_of, recording.branch_at_us)
        for recording in found.values()
        if recording.branch_of is not None and recording.branch_at_us is not None
    }


def _prefixes(
    entries: Sequence[CallEntry],
    scans: Mapping[str, Scan],
    split_of: Mapping[str, str],
    target: Target,
    build: Build,
    *,
    codec_sha256: str,
) -> tuple[list[PrefixJob], dict[str, str], dict[str, VoiceSample]]:
    """The prefixes to encode, the one that each call uses, and the voice samples of the calls that have one."""
    recipe = build.recipe
    if recipe.prefix is None:
        return [], {}, {}
    by_id = {entry.call_id: entry for entry in entries}
    chosen: dict[str, VoiceSample] = {}
    if recipe.prefix.voice == "auto":
        chosen = voice_samples(
            [
                VoiceCandidate(
                    entry.call_id,
                    entry.voice,
                    split_of[entry.call_id],
                    entry.family,
                    scan.audio_sha256,
                    scan.voice_start_us,
                    scan.voice_end_us,
                )
                for entry in entries
                if entry.voice is not None
                for scan in [scans[entry.call_id]]
            ]
        )
    digest = {"codec": codec_sha256, "tokenizer": str(recipe.text.tokenizer)}
    plans: dict[str, PrefixPlan] = {}
    prefix_of = {}
    roles: dict[str | None, None] = {}
    for entry in entries:
        role = entry.role if recipe.prefix.role else None
        roles[role] = None
        voice = chosen.get(entry.call_id)
        name = prefix_id(voice, role, digest)
        plans.setdefault(name, PrefixPlan(name, voice, role))
        prefix_of[entry.call_id] = name
    for voice_name, path in sorted(recipe.prefix.voices.items()):
        sample = VoiceSample(voice_name, None, path=path)
        for role in roles:
            name = prefix_id(sample, role, {**digest, "file": file_sha256(Path(path))})
            plans.setdefault(name, PrefixPlan(name, sample, role))
    stored = set(target.prefixes["prefix_id"].to_list())
    jobs = [_prefix_job(plan, by_id, build) for plan in plans.values() if plan.prefix_id not in stored]
    return jobs, prefix_of, chosen


def _prefix_job(plan: PrefixPlan, by_id: Mapping[str, CallEntry], build: Build) -> PrefixJob:
    voice = plan.voice
    return PrefixJob(
        build=build,
        plan=plan,
        source=CallInput.of(by_id[voice.call_id]) if voice and voice.call_id else None,
        voice_file=Path(voice.path) if voice and voice.path else None,
    )


def _partners(
    entries: Sequence[CallEntry],
    found: Mapping[Path, FoundRecording],
    split_of: Mapping[str, str],
    target: Target,
    recipe: Recipe,
) -> dict[str, str | None]:
    if recipe.memory is None:
        return {}
    candidates = [
        Candidate(
            entry.call_id,
            entry.family,
            split_of[entry.call_id],
            recording.recording_id if recording else None,
        )
        for entry in entries
        for recording in [found.get(entry.recording) if entry.recording is not None else None]
    ]
    if target.calls.height:
        candidates += [
            Candidate(*row)
            for row in target.calls.select("call_id", "family", "split", "recording_id").iter_rows()
        ]
    return choose_partners(candidates, seed=recipe.splits.seed, branches=_branches(found))


def _memory(recording: FoundRecording, job: RecordingJob) -> MemoryRef:
    return MemoryRef(recording.recording_id, RECORDING.folder(job), recording.sha256)


def _tokens(job: CallJob, found: Mapping[Path, FoundRecording]) -> int:
    recording = found.get(job.entry.recording) if job.entry.recording is not None else None
    return recording.tokens if recording else 0
