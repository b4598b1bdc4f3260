"""Shards from what the units left in the ledger. One writer per shard; a shard is noted before it is published."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from inkplex_data.config.recipe import Recipe
from inkplex_data.grid import STATE_ROWS
from inkplex_data.pipeline.calls.build_call import CALL, CallJob
from inkplex_data.pipeline.calls.turn_columns import TURN_COLUMNS
from inkplex_data.pipeline.planning.build_plan import BuildPlan
from inkplex_data.pipeline.planning.prefix_voices import PrefixPlan
from inkplex_data.pipeline.planning.sharding import Sized, plan_shards, recording_bytes
from inkplex_data.pipeline.prefixes import PREFIX, EncodedPrefix, PrefixJob
from inkplex_data.pipeline.progress import Reporter
from inkplex_data.pipeline.recording_states import load_states
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, ReadRecording, RecordingJob
from inkplex_data.pipeline.result_files import load_field
from inkplex_data.pipeline.stamp import stamp
from inkplex_data.pipeline.target import Target
from inkplex_data.problems import Problem
from inkplex_data.store.shard import CallShardWriter, PrefixShardWriter, RecordingShardWriter

EXTRA_COLUMNS = {
    "input_sha256": pl.String(),
    "audio_fingerprint": pl.Binary(),
    "agent_channel": pl.Int32(),
    "caller_channel": pl.Int32(),
    **TURN_COLUMNS,
}


def calls_stamp(planned: Sequence[CallJob]) -> str:
    """What a planned shard of calls is recognised by: the stamps of its members, in order."""
    return stamp([CALL.stamp(job) for job in planned])


def write_call_shard(
    target: Target,
    shard: int,
    planned: Sequence[CallJob],
    built: Sequence[CallJob],
    refused: Sequence[Problem],
) -> None:
    """Publish one shard of calls. `planned` are all its members, `built` those that succeeded, in order."""
    target.note("calls", shard, calls_stamp(planned), [job.entry.call_id for job in built], refused)
    if not built:
        return
    with CallShardWriter(target.root, shard, extra_columns=EXTRA_COLUMNS) as writer:
        for job in built:
            part = CALL.do(job)
            # A unit's row is kept as JSON, which has no bytes.
            part.row["audio_fingerprint"] = base64.b64decode(job.scan.audio_fingerprint)
            writer.add(part)
        writer.publish()


def write_recordings(target: Target, plan: BuildPlan, recipe: Recipe, reporter: Reporter) -> None:
    """Publish the recordings that the plan's calls read: tokens and states, once each."""
    jobs = {job.key: job for job in plan.recordings}
    found = {job.key: plan.found[job.path] for job in plan.recordings}
    ids: dict[str, str] = {}
    for key, recording in found.items():
        ids.setdefault(recording.recording_id, key)
    # A shard's states have one width.
    by_width: dict[int, list[Sized]] = {}
    for key in ids.values():
        width = found[key].states.width
        size = recording_bytes(tokens=found[key].tokens, state_width=width, state_rows=len(STATE_ROWS))
        by_width.setdefault(width, []).append(Sized(key, size))
    shards = [keys for sized in by_width.values() for keys in plan_shards(sized, recipe.store.shard_bytes)]
    first = target.fixed["recordings"]
    next_ix = target.next_index(target.recordings, "recording_ix")
    reporter.stage("tokens", len(ids), unit="recordings")
    for number, keys in enumerate(shards):
        shard = first + number
        stamp_ = stamp([[RECORDING.stamp(jobs[key]), found[key].sha256] for key in keys])
        if not target.is_published("recordings", shard, stamp_):
            target.note("recordings", shard, stamp_, keys)
            _write_recording_shard(target.root, shard, [(jobs[key], found[key]) for key in keys], next_ix)
        next_ix += len(keys)
        reporter.advance("tokens", items=len(keys))
    target.drop_beyond("recordings", first + len(shards) - 1)


def _write_recording_shard(
    root: Path, shard: int, members: Sequence[tuple[RecordingJob, FoundRecording]], first_ix: int
) -> None:
    with RecordingShardWriter(root, shard) as writer:
        for offset, (job, recording) in enumerate(members):
            writer.begin(
                {
                    "recording_id": recording.recording_id,
                    "recording_ix": first_ix + offset,
                    "model": recording.model,
                    "tokenizer": recording.tokenizer,
                    "times": recording.times,
                    "branch_of": recording.branch_of,
                    "branch_at_us": recording.branch_at_us,
                    "content_sha256": recording.sha256,
                    "states": recording.states.kind,
                    "state_width": recording.states.width,
                    "states_from": _json(recording.states.identity),
                }
            )
            folder = RECORDING.folder(job)
            for states in load_states(folder, recording.states):
                writer.append_states(states)
            writer.end(load_field(folder, ReadRecording, "tokens"))
        writer.publish()


def write_prefixes(target: Target, jobs: Sequence[PrefixJob]) -> None:
    """Publish the prefixes that could be encoded, in plan order."""
    shard = target.fixed["prefixes"]
    stamp_ = stamp([PREFIX.stamp(job) for job in jobs])
    if jobs and not target.is_published("prefixes", shard, stamp_):
        target.note("prefixes", shard, stamp_, [job.plan.prefix_id for job in jobs])
        with PrefixShardWriter(target.root, shard) as writer:
            for job in jobs:
                _add_prefix(writer, job.plan, PREFIX.do(job))
            writer.publish()
    target.drop_beyond("prefixes", shard if jobs else shard - 1)


def _add_prefix(writer: PrefixShardWriter, plan: PrefixPlan, prefix: EncodedPrefix) -> None:
    voice = plan.voice
    row = {
        "prefix_id": plan.prefix_id,
        "voice": voice.voice if voice else None,
        "role": plan.role,
        "split": voice.split if voice else None,
        "voice_source": voice.describe() if voice else None,
        "voice_frames": prefix.voice_frames,
        "role_pieces": prefix.role_pieces,
    }
    writer.add(row, prefix.streams)


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)
