"""Small stores whose memory is real: tokens that arrive while calls run, states, and versions built from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import KINDS
from inkplex_data.memory.tables import TOKENS
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.describe import write_description
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallPart, RecordingShardWriter
from tests.store import made as store_made
from tests.store.made import Made, add_calls, add_prefixes, table

WIDTH = 4
WINDOW = 25
"""Tokens that a memory holds here, so that tokens leave it within a short call."""


def token_table(recording: str, tokens: int) -> pl.DataFrame:
    """Two requests whose tokens arrive in bursts, not in the order in which they are laid out."""
    rng = np.random.default_rng([*recording.encode(), tokens])
    call = np.sort(rng.integers(0, 2, tokens))
    pieces = [rng.integers(4, 400, rng.integers(0, 4)).tolist() for _ in range(tokens)]
    return table(
        TOKENS,
        tokens,
        row=np.arange(tokens),
        call=call,
        position=np.arange(tokens),
        token_id=np.arange(tokens),
        kind=rng.choice(KINDS, tokens).tolist(),
        bytes=rng.choice([b" a", b"b", b"c d", b" "], tokens).tolist(),
        special=rng.random(tokens) < 0.1,
        arrival_us=np.sort(rng.integers(0, 200, tokens)) * 40_000 + call * 1_000_000,
        rank=np.arange(tokens),
        piece_ids=pieces,
    )


def add_recordings(made: Made, shard: int, sizes: dict[str, int], *, width: int = WIDTH) -> None:
    with RecordingShardWriter(made.root, shard) as writer:
        for recording_id, tokens in sizes.items():
            made.tokens[recording_id] = token_table(recording_id, tokens)
            writer.begin({"recording_id": recording_id, "state_width": width})
            if width:
                states = np.random.default_rng(tokens).integers(0, 2**16, (tokens, 3, width), dtype=np.uint16)
                made.states[recording_id] = states
                writer.append_states(states)
            writer.end(made.tokens[recording_id])
        writer.publish()


def call(made: Made, call_id: str, frames: int, *, start_frame: int = 20, **row: Any) -> CallPart:
    """A call that begins `start_frame` frames into its recording's session, if it has one."""
    part = store_made.call_part(call_id, frames, words=0, versions=0, **row)
    recording = row.get("recording_id")
    if recording is not None:
        starts_at_us = start_frame * FRAME_US
        part.row["recording_starts_at_us"] = starts_at_us
        clock = SessionClock(starts_at_us, 0, frames)
        versions = build_versions(made.tokens[recording], clock, window=WINDOW)
        part.versions = versions.with_columns(pl.lit(None, pl.Int64).alias("call_ix"))
    return part


def begin(root: object) -> Made:
    made = Made(str(root))
    write_description(made.root, {"configuration": {"memory": {"window": WINDOW}}})
    add_prefixes(made)
    return made


def finish(made: Made) -> Made:
    publish_snapshot(made.root)
    return made


def make_store(root: object) -> Made:
    """Seven training calls in two shards, of 1 to 130 frames, two test calls, and all kinds of memory."""
    made = begin(root)
    add_recordings(made, 0, {"one": 90, "two": 40})
    add_recordings(made, 1, {"bare": 12}, width=0)
    one = {"recording_id": "one", "prefix_id": "p0"}
    add_calls(
        made,
        0,
        [
            call(made, "long", 130, response_start_frame=95, **one),
            call(made, "later", 60, start_frame=80, **one),
            call(made, "plain", 33, prefix_id="p3", decisions=["speak", None], agent_origin="recorded"),
            call(made, "tiny", 1, recording_id="two"),
        ],
    )
    add_calls(
        made,
        1,
        [
            call(made, "stateless", 20, recording_id="bare", prefix_id="p0"),
            call(made, "other", 47, recording_id="two", prefix_id="p1", start_frame=0),
            call(made, "early", 30, recording_id="two", start_frame=-500),
            call(made, "eval", 50, split="test", wrong_memory_of="eval 2", **one),
            call(made, "eval 2", 40, split="test", recording_id="two", wrong_memory_of="eval"),
        ],
    )
    return finish(made)
