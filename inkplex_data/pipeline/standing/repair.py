"""Lost shards made again, in the same bytes, under the snapshot that lists them.

What a shard held, and what the plan had decided about it, stands in the root tables; all else comes from the corpus,
which has not changed (`changes.py`). The SHA-256 that the snapshot lists proves the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import StoreError
from inkplex_data.pipeline.calls.build_call import CallJob
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import ScanJob
from inkplex_data.pipeline.planning.build_plan import memory_of, notes
from inkplex_data.pipeline.planning.prefix_voices import PrefixPlan, VoiceSample
from inkplex_data.pipeline.prefixes import PrefixJob
from inkplex_data.pipeline.recordings import FoundRecording, RecordingJob
from inkplex_data.pipeline.shards import (
    CallMember,
    PrefixMember,
    RecordingMember,
    write_call_shard,
    write_prefix_shard,
    write_recording_shard,
)
from inkplex_data.pipeline.stage_run import StageRun
from inkplex_data.store.publish import shard_folder
from inkplex_data.store.snapshot import ShardRef


def repair(run: StageRun, listed: Mapping[str, CallEntry]) -> None:
    """Make the target's lost shards again. `listed`: the corpus's calls, among them all that the store holds.

    Raises StoreError where a call can no longer be built, or the bytes differ from those that were published.
    """
    target = run.target
    before = frozenset(problem.call_id for problem in run.refusals.errors())
    by_key = {ref.key: ref for ref in target.lost}
    run.reporter.note(f"made again: {', '.join(by_key)}")
    calls = target.calls.filter(pl.col("shard").is_in(target.lost_numbers("calls")))
    recordings = target.recordings.filter(pl.col("shard").is_in(target.lost_numbers("recordings")))
    prefixes = target.prefixes.filter(pl.col("shard").is_in(target.lost_numbers("prefixes")))
    reading = target.calls.filter(pl.col("recording_id").is_in(recordings["recording_id"].to_list()))
    naming = reading.unique("recording_id", keep="first", maintain_order=True)["call_id"]
    entries = [listed[call_id] for call_id in calls["call_id"]]
    scans = run.scan(entries)
    found = run.read_recordings([*entries, *(listed[call_id] for call_id in naming)])
    run.describe(found)
    _refuse_refusals(run, before)
    _recordings(run, recordings, found, by_key)
    _prefixes(run, prefixes, listed, by_key)
    _refuse_refusals(run, before)
    voiced = {row["prefix_id"] for row in target.prefixes.iter_rows(named=True) if row["voice"] is not None}
    jobs = {
        row["call_id"]: CallJob(
            build=run.build,
            scanned=ScanJob(build=run.build, given=CallInput.of(entry)),
            scan=scans[entry.call_id],
            call_ix=row["call_ix"],
            family=row["family"],
            split=row["split"],
            prefix_id=row["prefix_id"],
            memory=memory_of(run.build, found.get(entry.recording) if entry.recording else None),
            notes=(
                *run.refusals.notes(entry.call_id),
                *notes(
                    run.build,
                    entry,
                    row["split"],
                    family=row["family"],
                    reason=row["family_reason"],
                    has_voice=row["prefix_id"] in voiced,
                ),
            ),
            family_reason=row["family_reason"],
        )
        for row, entry in zip(calls.iter_rows(named=True), entries, strict=True)
    }
    for _ in run.encode(list(jobs.values())):
        pass
    _refuse_refusals(run, before)
    for shard, rows in _by_shard(calls).items():
        members = [CallMember.of(jobs[row["call_id"]], row["wrong_memory_of"]) for row in rows]
        write_call_shard(target, shard, members, replaces=by_key[shard_folder("calls", shard)].sha256)


def _recordings(
    run: StageRun, rows: pl.DataFrame, found: Mapping[Path, FoundRecording], lost: Mapping[str, ShardRef]
) -> None:
    jobs = {one.recording_id: RecordingJob(build=run.build, path=path) for path, one in found.items()}
    for shard, own in _by_shard(rows).items():
        ref = lost[shard_folder("recordings", shard)]
        members = [
            RecordingMember.of(job, found[job.path], row["recording_ix"])
            for row in own
            for job in [jobs[row["recording_id"]]]
        ]
        write_recording_shard(run.target, shard, members, replaces=ref.sha256)


def _prefixes(
    run: StageRun, rows: pl.DataFrame, listed: Mapping[str, CallEntry], lost: Mapping[str, ShardRef]
) -> None:
    jobs = {row["prefix_id"]: _prefix_job(run, row, listed) for row in rows.iter_rows(named=True)}
    run.prefixes(list(jobs.values()), lambda job: (f"prefix {job.key}",))
    for shard, own in _by_shard(rows).items():
        ref = lost[shard_folder("prefixes", shard)]
        members = [PrefixMember.of(jobs[row["prefix_id"]]) for row in own]
        write_prefix_shard(run.target, shard, members, replaces=ref.sha256)


def _prefix_job(run: StageRun, row: Mapping[str, Any], listed: Mapping[str, CallEntry]) -> PrefixJob:
    source = row["voice_source"]
    voice = None if source is None else VoiceSample.of_description(row["voice"], row["split"], source)
    return PrefixJob(
        build=run.build,
        plan=PrefixPlan(row["prefix_id"], voice, row["role"]),
        source=CallInput.of(listed[voice.call_id]) if voice and voice.call_id else None,
        voice_file=voice.file(run.build.corpus_root) if voice else None,
    )


def _by_shard(rows: pl.DataFrame) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(row["shard"], []).append(row)
    return found


def _refuse_refusals(run: StageRun, before: frozenset[str]) -> None:
    """Raise StoreError where a call or prefix that a lost shard holds was refused."""
    problem = next((one for one in run.refusals.errors() if one.call_id not in before), None)
    if problem is not None:
        raise StoreError(
            f"a lost shard cannot be made again without {problem.call_id!r}: [{problem.code}] {problem.message}",
            where=str(run.target.root),
            next_step="Restore the shard from a copy, or use --update to publish what can be built now.",
        )
