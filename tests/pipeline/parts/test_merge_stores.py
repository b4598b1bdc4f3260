"""Parts of a corpus, joined, are what one build of it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import inkplex_data as ink
from inkplex_data.pipeline.parts.merge_stores import merge_stores
from inkplex_data.store.frame_streams import stored_in
from inkplex_data.store.verify.whole_store import verify_store
from tests.pipeline.conftest import tree
from tests.pipeline.parts.conftest import Parted

PLACES = ["shard", "frame_offset", *(f"{name}_offset" for name in ("word", "version", "evidence", "claim", "token"))]
"""Where rows lie in their shards: a part ends a shard where one build would go on."""


def same_content(one: Path, other: Path) -> None:
    ours, theirs = ink.open_store(one), ink.open_store(other)
    for table in ("calls", "recordings", "prefixes", "problems", "splits", "words", "versions", "evidence", "claims", "tokens"):
        left, right = (getattr(store, table)().collect() for store in (ours, theirs))
        assert left.drop(PLACES, strict=False).equals(right.drop(PLACES, strict=False)), table
    assert ours.frames().collect().equals(theirs.frames().collect())
    for call_id in ours.call_ids:
        for stream in stored_in("calls"):
            assert np.array_equal(ours.call(call_id).stream(stream.name), theirs.call(call_id).stream(stream.name))
    for recording_id, shard in ours.recordings().select("recording_id", "shard").collect().iter_rows():
        rows = [store.recording_row(recording_id) for store in (ours, theirs)]
        states = [
            store.states(row["shard"]).read_rows(row["token_offset"], row["token_offset"] + row["tokens"])
            for store, row in zip((ours, theirs), rows, strict=True)
        ]
        assert np.array_equal(*states), recording_id


def test_parts_joined_equal_one_build(parted: Parted, tmp_path: Path) -> None:
    summary = merge_stores(parted.parts[::-1], tmp_path / "store")
    assert summary.exit_code == 0 and len(summary.calls) == 6
    same_content(parted.whole.store, tmp_path / "store")
