"""A store that follows its corpus: a new snapshot with changed calls built anew and without those that are gone.

A shard that holds something stale leaves the snapshot; the rest of it is copied into new shards, so that no reader
needs a filter. Nothing published changes, and older snapshots stay readable. A call keeps its `call_ix`, a family its
split, and what is not touched its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.pipeline.calls.scan_call import Scan
from inkplex_data.pipeline.planning.build_plan import BuildPlan, Planner
from inkplex_data.pipeline.planning.prefix_voices import VoiceSample
from inkplex_data.pipeline.planning.sharding import Sized, call_bytes, plan_shards
from inkplex_data.pipeline.recordings import FoundRecording
from inkplex_data.pipeline.shards import (
    CallMember,
    PrefixMember,
    new_recordings,
    write_call_shard,
    write_prefixes,
    write_recordings,
)
from inkplex_data.pipeline.stage_run import StageRun
from inkplex_data.pipeline.standing.changes import Changes
from inkplex_data.pipeline.standing.copied_members import Copies, Row
from inkplex_data.pipeline.target import Target
from inkplex_data.store.format import ShardKind
from inkplex_data.store.publish import shard_folder

_IN_LINE: Final = ("voice", "family")
"""What a line says that decides whose prefix may be cut from the call."""


def update_store(
    run: StageRun, listed: Sequence[CallEntry], changes: Changes
) -> tuple[list[str], frozenset[str]]:
    """Build what is new or changed, and copy what leaves a shard with it.

    Returns the ids of the calls built, and the keys of the shards that the next snapshot does not list.
    """
    copies = Copies.of(run.target)
    try:
        return _Update(run, {entry.call_id: entry for entry in listed}, copies).go(changes)
    finally:
        copies.close()


@dataclass(frozen=True)
class _Update:
    run: StageRun
    listed: Mapping[str, CallEntry]
    copies: Copies

    def go(self, changes: Changes) -> tuple[list[str], frozenset[str]]:
        run, target = self.run, self.run.target
        sound_recordings = _sound(target, "recordings", target.recordings)
        sound_prefixes = _sound(target, "prefixes", target.prefixes)
        calls = _sound(target, "calls", target.calls).filter(
            ~pl.col("call_id").is_in([*changes.changed, *changes.gone]),
            _names_one_of("recording_id", sound_recordings),
            _names_one_of("prefix_id", sound_prefixes),
        )
        standing = set(calls["call_id"])
        entries = [entry for call_id, entry in self.listed.items() if call_id not in standing]
        scans = run.scan(entries)
        found = run.read_recordings([entry for entry in entries if entry.call_id in scans])
        codec_sha256 = run.describe(found)
        kept = dataclasses.replace(
            target,
            calls=calls,
            recordings=_kept_recordings(sound_recordings, calls, found),
            prefixes=self._kept_prefixes(sound_prefixes, standing, scans),
        )
        revoiced = calls.filter(~_names_one_of("prefix_id", kept.prefixes))["call_id"].to_list()
        voices = {self.listed[call_id].voice for call_id in [*revoiced, *scans]} - {None}
        speakers = calls.filter(pl.col("voice").is_in(list(voices))).iter_rows(named=True)
        planner = Planner(
            run.build,
            kept,
            scans,
            found,
            run.refusals,
            codec_sha256,
            call_ix={**run.places_in_corpus, **dict(target.calls.select("call_id", "call_ix").iter_rows())},
            voices=self.copies.voices(speakers, run.build.recipe),
            revoiced=[self.listed[call_id] for call_id in revoiced],
        )
        plan = planner.plan(entries, self.listed)
        retired = self._write_recordings(kept, plan)
        retired |= self._write_prefixes(kept, plan)
        for job in run.encode([job for job in plan.jobs if job.key not in run.refusals]):
            if job.key in run.refusals:
                plan.partners.refuse(job.key)
        retired |= self._write_calls(kept, plan)
        return [job.key for job in plan.jobs if job.key not in run.refusals], frozenset(retired)

    def _kept_prefixes(
        self, sound: pl.DataFrame, standing: set[str], scans: Mapping[str, Scan]
    ) -> pl.DataFrame:
        """Prefixes without those that were cut from a call whose sound, voice or family is another now."""
        rows = {row["call_id"]: row for row in self.run.target.calls.iter_rows(named=True)}

        def lends(call_id: str) -> bool:
            if call_id in standing:
                return True
            if call_id not in scans or call_id in self.run.refusals:
                return False
            before, entry = rows.get(call_id), self.listed[call_id]
            return before is not None and (
                scans[call_id].audio_sha256 == before["audio_sha256"]
                and all(getattr(entry, name) == before[name] for name in _IN_LINE)
            )

        keep = []
        for source in sound["voice_source"]:
            sample = VoiceSample.of_description("", None, source) if source is not None else None
            keep.append(sample is None or sample.call_id is None or lends(sample.call_id))
        return sound.filter(pl.Series(keep, dtype=pl.Boolean))

    def _write_recordings(self, kept: Target, plan: BuildPlan) -> set[str]:
        target, run = self.run.target, self.run
        retired = _shards_with_less(target, "recordings", target.recordings, kept.recordings, "recording_id")
        copied = kept.recordings.filter(pl.col("shard").is_in(sorted(retired))).sort("recording_ix")
        members = [self.copies.recording(row) for row in copied.iter_rows(named=True)]
        members += new_recordings(kept, plan)
        write_recordings(target, members, run.build.recipe, run.reporter)
        return _keys("recordings", retired)

    def _write_prefixes(self, kept: Target, plan: BuildPlan) -> set[str]:
        target, run = self.run.target, self.run
        retired = _shards_with_less(target, "prefixes", target.prefixes, kept.prefixes, "prefix_id")
        copied = kept.prefixes.filter(pl.col("shard").is_in(sorted(retired)))
        using: dict[str, list[str]] = {}
        for call_id, prefix_id in plan.prefix_of.items():
            using.setdefault(prefix_id, []).append(call_id)
        made = run.prefixes(plan.prefixes, lambda job: using.get(job.key, ()))
        for call_id in plan.prefix_of:
            if call_id in run.refusals:
                plan.partners.refuse(call_id)
        members = [self.copies.prefix(row) for row in copied.iter_rows(named=True)]
        write_prefixes(target, [*members, *(PrefixMember.of(job) for job in made)])
        return _keys("prefixes", retired)

    def _write_calls(self, kept: Target, plan: BuildPlan) -> set[str]:
        target, refusals = self.run.target, self.run.refusals
        retired = _shards_with_less(target, "calls", target.calls, kept.calls, "call_id")
        now: dict[str, tuple[str | None, str | None]] = {}
        for row in kept.calls.iter_rows(named=True):
            call_id = row["call_id"]
            now[call_id] = (plan.prefix_of.get(call_id, row["prefix_id"]), plan.partners.of(call_id))
            same = now[call_id] == (row["prefix_id"], row["wrong_memory_of"])
            if not same or call_id in refusals or call_id in plan.renoted:
                retired.add(row["shard"])
        tokens = dict(target.recordings.select("recording_id", "tokens").iter_rows())
        members: dict[str, CallMember] = {}
        order: list[tuple[int, Sized]] = []
        for row in kept.calls.filter(pl.col("shard").is_in(sorted(retired))).iter_rows(named=True):
            call_id = row["call_id"]
            if call_id in refusals:
                continue
            prefix_id, partner = now[call_id]
            members[call_id] = self.copies.call(
                row, prefix_id=prefix_id, partner=partner, notes=plan.renoted.get(call_id)
            )
            order.append((row["call_ix"], Sized(call_id, _stored_bytes(row, tokens))))
        for job in plan.jobs:
            if job.key not in refusals:
                members[job.key] = CallMember.of(job, plan.partners.of(job.key))
                order.append((job.call_ix, plan.sized(job)))
        sized = [one for _, one in sorted(order, key=lambda entry: entry[0])]
        cut = plan_shards(sized, self.run.build.recipe.store.shard_bytes)
        first = target.fixed["calls"]
        for shard, keys in enumerate(cut, first):
            write_call_shard(target, shard, [members[key] for key in keys])
        target.drop_beyond("calls", first + len(cut) - 1)
        return _keys("calls", retired)


def _sound(target: Target, kind: ShardKind, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of shards that are there."""
    return rows.filter(~pl.col("shard").is_in(target.lost_numbers(kind)))


def _names_one_of(column: str, rows: pl.DataFrame) -> pl.Expr:
    """Whether a call's recording or prefix is none, or one of `rows`."""
    return pl.col(column).is_null() | pl.col(column).is_in(rows[column].to_list())


def _kept_recordings(
    sound: pl.DataFrame, calls: pl.DataFrame, found: Mapping[Any, FoundRecording]
) -> pl.DataFrame:
    """Recordings that a standing call reads, or that were read again and are the same."""
    same = pl.DataFrame(
        {
            "recording_id": [one.recording_id for one in found.values()],
            "content_sha256": [one.sha256 for one in found.values()],
        },
        schema={"recording_id": pl.String, "content_sha256": pl.String},
    ).unique()
    again = sound.join(same, on=["recording_id", "content_sha256"], how="semi")["recording_id"]
    used = [*calls["recording_id"].drop_nulls(), *again]
    return sound.filter(pl.col("recording_id").is_in(used))


def _shards_with_less(
    target: Target, kind: ShardKind, before: pl.DataFrame, kept: pl.DataFrame, own_id: str
) -> set[int]:
    """Shards of which not all stays, and those that are lost."""
    gone = before.filter(~pl.col(own_id).is_in(kept[own_id].to_list()))
    return {*gone["shard"], *target.lost_numbers(kind)}


def _keys(kind: ShardKind, shards: set[int]) -> set[str]:
    return {shard_folder(kind, shard) for shard in shards}


def _stored_bytes(row: Row, tokens: Mapping[str, int]) -> int:
    read = tokens.get(row["recording_id"], 0) if row["recording_id"] is not None else 0
    return call_bytes(frames=row["frames"], words=row["words"], tokens=read)
