"""Shards from what the units left in the ledger, and from what older shards hold.

One writer per shard; what a shard is to hold is noted before it is published.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.config.recipe import Recipe
from inkplex_data.grid import STATE_ROWS
from inkplex_data.pipeline.calls.build_call import CALL, CallJob
from inkplex_data.pipeline.calls.turn_columns import TURN_COLUMNS
from inkplex_data.pipeline.planning.build_plan import BuildPlan
from inkplex_data.pipeline.planning.sharding import Sized, plan_shards, recording_bytes
from inkplex_data.pipeline.prefixes import PREFIX, PrefixJob
from inkplex_data.pipeline.progress import Reporter
from inkplex_data.pipeline.recording_states import fetch_states, load_states, move_states
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, ReadRecording, RecordingJob
from inkplex_data.pipeline.result_files import load_field
from inkplex_data.pipeline.stamp import stamp
from inkplex_data.pipeline.target import Target
from inkplex_data.store.format import HISTORY
from inkplex_data.store.publish import shard_folder
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter, RecordingShardWriter

EXTRA_COLUMNS = {
    "input_sha256": pl.String(),
    "inputs": pl.String(),
    "audio_fingerprint": pl.Binary(),
    "exchanged_sha256": pl.String(),
    "agent_channel": pl.Int32(),
    "caller_channel": pl.Int32(),
    "clip_start_us": pl.Int64(),
    "clip_end_us": pl.Int64(),
    "history": HISTORY,
    **TURN_COLUMNS,
}


@dataclass(frozen=True)
class CallMember:
    """A call as a shard takes it. `stamp` identifies what `part` gives; the partner is settled last."""

    call_id: str
    stamp: str
    partner: str | None
    part: Callable[[], CallPart]

    @classmethod
    def of(cls, job: CallJob, partner: str | None) -> CallMember:
        """A call that was built."""
        return cls(job.key, CALL.stamp(job), partner, lambda: _built(job))


def _built(job: CallJob) -> CallPart:
    part = CALL.do(job)
    # A unit's row is kept as JSON, which has no bytes.
    fingerprint = base64.b64decode(job.scan.audio_fingerprint)
    heard = {"audio_fingerprint": fingerprint, "exchanged_sha256": job.scan.exchanged_sha256 or None}
    return dataclasses.replace(part, row=part.row | heard)


def write_call_shard(
    target: Target, shard: int, members: Sequence[CallMember], *, replaces: str | None = None
) -> None:
    """Publish one shard of calls, which hold in this order; none where there is no call, or it is there already.

    `replaces`: as `StagedShard` has it.
    """
    if replaces is None:
        stamp_ = stamp([[member.stamp, member.partner] for member in members])
        if target.is_published("calls", shard, stamp_):
            return
        target.note("calls", shard, stamp_)
    if not members:
        return
    with CallShardWriter(target.root, shard, extra_columns=EXTRA_COLUMNS, replaces=replaces) as writer:
        for member in members:
            part = member.part()
            writer.add(dataclasses.replace(part, row=part.row | {"wrong_memory_of": member.partner}))
        writer.publish()


@dataclass(frozen=True)
class RecordingMember:
    """A recording as a shard takes it: its row, and where its states and tokens come from.

    `key` and `stamp` identify it; `states` are uint16 [n, 3, D] blocks in layout order.
    """

    key: str
    stamp: str
    row: Mapping[str, Any]
    states: Callable[[], Iterable[NDArray[np.uint16]]]
    tokens: Callable[[], pl.DataFrame]
    moved: Callable[[Path, int], None] = lambda shard, first: None
    """Told where the states lie once they are published: the shard, and their first row there."""
    fetch: Callable[[], None] = lambda: None
    """Makes `states` independent of the shards that are there."""

    @classmethod
    def of(cls, job: RecordingJob, found: FoundRecording, recording_ix: int) -> RecordingMember:
        """A recording that was read in this build."""
        folder = RECORDING.folder(job)
        row = {
            "recording_id": found.recording_id,
            "recording_ix": recording_ix,
            "tokens": found.tokens,
            "model": found.model,
            "tokenizer": found.tokenizer,
            "times": found.times,
            "schedule": found.schedule,
            "branch_of": found.branch_of,
            "branch_at_us": found.branch_at_us,
            "content_sha256": found.sha256,
            "states": found.states.kind,
            "state_width": found.states.width,
            "states_identity": _json(found.states.identity),
            "state_digests": found.states.digests,
            "files": found.input_files,
            "requests": found.requests,
        }
        return cls(
            found.recording_id,
            stamp(RECORDING.stamp(job), found.sha256),
            row,
            lambda: load_states(folder, found.states),
            lambda: load_field(folder, ReadRecording, "tokens"),
            lambda shard, first: move_states(folder, found.states, shard, first),
            lambda: fetch_states(folder, found.states),
        )


def new_recordings(target: Target, plan: BuildPlan) -> list[RecordingMember]:
    """The recordings that the plan's calls read and the store does not hold, once each."""
    by_id: dict[str, RecordingJob] = {}
    for job in plan.recordings:
        by_id.setdefault(plan.found[job.path].recording_id, job)
    ix = itertools.count(target.next_ix["recordings"])
    # A shard's states have one width; widths come in the order of their first recording.
    by_width: dict[int, list[RecordingJob]] = {}
    for job in by_id.values():
        by_width.setdefault(plan.found[job.path].states.width, []).append(job)
    return [
        RecordingMember.of(job, plan.found[job.path], next(ix)) for jobs in by_width.values() for job in jobs
    ]


def write_recordings(
    target: Target, recordings: Sequence[RecordingMember], recipe: Recipe, reporter: Reporter
) -> None:
    """Publish recordings, tokens and states, in new shards."""
    by_width: dict[int, list[Sized]] = {}
    for recording in recordings:
        width, tokens = recording.row["state_width"], recording.row["tokens"]
        size = recording_bytes(tokens=tokens, state_width=width, state_rows=len(STATE_ROWS))
        by_width.setdefault(width, []).append(Sized(recording.key, size))
    shards = [keys for sized in by_width.values() for keys in plan_shards(sized, recipe.store.shard_bytes)]
    by_key = {recording.key: recording for recording in recordings}
    first = target.fixed["recordings"]
    reporter.stage("tokens", len(recordings), unit="recordings")
    planned = [
        (
            shard,
            members,
            stamp([[member.key, member.stamp, member.row["recording_ix"]] for member in members]),
        )
        for shard, members in enumerate(([by_key[key] for key in keys] for keys in shards), start=first)
    ]
    for shard, members, stamp_ in planned:
        if not target.holds("recordings", shard, stamp_):
            for member in members:
                member.fetch()
    for shard, members, stamp_ in planned:
        if not target.is_published("recordings", shard, stamp_):
            target.note("recordings", shard, stamp_)
            write_recording_shard(target, shard, members)
        row = 0
        for member in members:
            member.moved(target.root / shard_folder("recordings", shard), row)
            row += member.row["tokens"]
        reporter.advance("tokens", items=len(members))
    target.drop_beyond("recordings", first + len(shards) - 1)


def write_recording_shard(
    target: Target, shard: int, members: Sequence[RecordingMember], *, replaces: str | None = None
) -> None:
    """Publish one shard of recordings. `replaces`: as `StagedShard` has it."""
    with RecordingShardWriter(target.root, shard, replaces=replaces) as writer:
        for member in members:
            writer.begin(member.row)
            for states in member.states():
                writer.append_states(states)
            writer.end(member.tokens())
        writer.publish()


@dataclass(frozen=True)
class PrefixMember:
    """A prefix as a shard takes it."""

    prefix_id: str
    stamp: str
    part: Callable[[], tuple[Mapping[str, Any], Mapping[str, np.ndarray]]]
    """Its row, and its streams [P] or [P, width]."""

    @classmethod
    def of(cls, job: PrefixJob) -> PrefixMember:
        """A prefix that was encoded in this build."""
        return cls(job.key, PREFIX.stamp(job), lambda: _prefix_part(job))


def write_prefixes(target: Target, prefixes: Sequence[PrefixMember]) -> None:
    """Publish prefixes in this order, as one new shard."""
    shard = target.fixed["prefixes"]
    stamp_ = stamp([prefix.stamp for prefix in prefixes])
    if prefixes and not target.is_published("prefixes", shard, stamp_):
        target.note("prefixes", shard, stamp_)
        write_prefix_shard(target, shard, prefixes)
    target.drop_beyond("prefixes", shard if prefixes else shard - 1)


def write_prefix_shard(
    target: Target, shard: int, prefixes: Sequence[PrefixMember], *, replaces: str | None = None
) -> None:
    """Publish one shard of prefixes. `replaces`: as `StagedShard` has it."""
    with PrefixShardWriter(target.root, shard, replaces=replaces) as writer:
        for prefix in prefixes:
            writer.add(*prefix.part())
        writer.publish()


def _prefix_part(job: PrefixJob) -> tuple[Mapping[str, Any], Mapping[str, np.ndarray]]:
    plan, prefix = job.plan, PREFIX.do(job)
    row = {
        "prefix_id": plan.prefix_id,
        "voice": plan.voice.voice if plan.voice else None,
        "role": plan.role,
        "split": plan.voice.split if plan.voice else None,
        "voice_source": plan.voice.describe() if plan.voice else None,
        "voice_frames": prefix.voice_frames,
        "role_pieces": prefix.role_pieces,
    }
    return row, prefix.streams


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)
