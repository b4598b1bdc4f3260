"""Shard writers: what they fill in, what they refuse, and the same bytes for the same parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from inkplex_data.errors import StoreError, UsageError
from inkplex_data.store.files import open_files
from inkplex_data.store.format import CALLS, RECORDINGS
from inkplex_data.store.publish import published_shards
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter, RecordingShardWriter
from tests.store.made import Made, add_recordings, call_part, make_store, token_table


def content(root: str) -> dict[str, bytes | None]:
    files = open_files(root)
    return {key: files.read(key) for key in files.tree("")}


def with_streams(part: CallPart, **changed: np.ndarray) -> CallPart:
    return replace(part, streams={**part.streams, **changed})


def test_offsets_and_counts_are_filled_in(tmp_path: Path) -> None:
    with CallShardWriter(tmp_path, 3) as writer:
        for number, frames in enumerate([10, 5_000, 7]):
            writer.add(call_part(f"c{number}", frames, words=number, versions=2 * number))
        info = writer.publish()
    counts = {
        "calls": 3,
        "frames": 5_017,
        "words": 3,
        "versions": 6,
        "evidence": 0,
        "claims": 0,
        "problems": 3,
    }
    assert info.counts == counts
    calls = pl.read_parquet(tmp_path / "calls/000003/calls.parquet")
    assert dict(calls.schema) == CALLS
    assert calls["shard"].to_list() == [3, 3, 3]
    assert calls["frame_offset"].to_list() == [0, 10, 5_010]
    assert calls.select("word_offset", "words").rows() == [(0, 0), (0, 1), (1, 2)]
    assert calls.select("version_offset", "versions").rows() == [(0, 0), (0, 2), (2, 4)]
    assert calls["call_ix"].is_unique().all()
    versions = pl.read_parquet(tmp_path / "calls/000003/versions.parquet")
    assert versions["call_ix"].to_list() == [calls["call_ix"][1]] * 2 + [calls["call_ix"][2]] * 4
    metadata = pq.read_metadata(tmp_path / "calls/000003/versions.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [2, 4]


def test_builder_columns_are_kept_and_typed(tmp_path: Path) -> None:
    extra = {"overlap_s": pl.Float32(), "turns": pl.Int32()}
    with CallShardWriter(tmp_path, 0, extra_columns=extra) as writer:
        writer.add(call_part("a", 5))
        writer.add(call_part("b", 5, turns=4, note=None))
        writer.add(call_part("c", 5, note="x"))
        writer.publish()
    calls = pl.read_parquet(tmp_path / "calls/000000/calls.parquet")
    assert {name: calls.schema[name] for name in extra} == extra
    assert calls["note"].to_list() == [None, None, "x"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"call_id": ""}, "without call_id"),
        ({"split": None, "family": None}, "without split, family"),
        ({"frames": 4}, "5 frames, not 4"),
        ({"samples": "many"}, "column 'samples' is Int64"),
        ({"call_id": "first"}, "in this shard already"),
    ],
)
def test_a_refused_call_leaves_no_trace(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    first, last = call_part("first", 5), call_part("last", 6)
    refused = call_part("refused", 5)
    refused.row |= row
    wrong = [
        with_streams(call_part("w", 5), text=np.zeros(4, np.int32)),
        replace(call_part("w", 5), words=pl.DataFrame({"text": ["x"]})),
        with_streams(call_part("w", 5), codes=np.zeros((5, 16), np.int64)),
        with_streams(call_part("w", 5), other=np.zeros(5, np.uint8)),
        replace(call_part("w", 5), streams={}),
    ]
    with CallShardWriter(tmp_path / "a", 0) as writer:
        writer.add(first)
        with pytest.raises(UsageError, match=message):
            writer.add(refused)
        for part in wrong:
            with pytest.raises(UsageError):
                writer.add(part)
        writer.add(last)
        writer.publish()
    with CallShardWriter(tmp_path / "b", 0) as writer:
        writer.add(first)
        writer.add(last)
        writer.publish()
    assert content(str(tmp_path / "a")) == content(str(tmp_path / "b"))


def test_same_parts_same_bytes_on_any_root(tmp_path: Path, root: str) -> None:
    """Nothing of a build's time, place or process is in a store."""
    make_store(root)
    make_store(tmp_path / "again" / "elsewhere")
    assert content(root) == content(str(tmp_path / "again" / "elsewhere"))


def test_a_published_shard_never_changes(tmp_path: Path) -> None:
    with CallShardWriter(tmp_path, 0) as writer, CallShardWriter(tmp_path, 1) as other:
        writer.add(call_part("a", 5))
        writer.publish()
        other.abort()
    before = content(str(tmp_path))
    with pytest.raises(StoreError, match="published already"):
        CallShardWriter(tmp_path, 0)
    assert content(str(tmp_path)) == before


def test_leaving_early_publishes_nothing(root: str) -> None:
    with pytest.raises(RuntimeError), CallShardWriter(root, 0) as writer:
        writer.add(call_part("a", 5_000))
        raise RuntimeError
    assert published_shards(root, "calls") == []
    assert open_files(root).tree("") == []


def test_leftovers_of_the_same_shard_are_removed(tmp_path: Path) -> None:
    for name in (".tmp-000002-dead", ".tmp-000003-live"):
        (tmp_path / "calls" / name / "x").mkdir(parents=True)
    with CallShardWriter(tmp_path, 2) as writer:
        writer.add(call_part("a", 5))
        writer.publish()
    assert open_files(tmp_path).names("calls") == [".tmp-000003-live", "000002"]


def test_recordings_follow_each_other(tmp_path: Path) -> None:
    made = Made(str(tmp_path))
    add_recordings(made, 0, {"a": 70, "b": 0, "c": 3})
    table = pl.read_parquet(tmp_path / "recordings/000000/recordings.parquet")
    assert dict(table.schema) == RECORDINGS
    assert table.select("token_offset", "tokens", "state_width", "states").rows() == [
        (0, 70, 8, "captured"),
        (70, 0, 8, "captured"),
        (70, 3, 8, "captured"),
    ]
    assert table["recording_ix"].is_unique().all()
    [info] = published_shards(tmp_path, "recordings")
    assert info.counts == {"recordings": 3, "tokens": 73, "state_rows": 73, "state_width": 8}


def test_recordings_refuse_what_does_not_fit(tmp_path: Path) -> None:
    states = np.zeros((5, 3, 8), np.uint16)
    with RecordingShardWriter(tmp_path, 0) as writer:
        for misuse in (lambda: writer.append_states(states), lambda: writer.end(token_table(0))):
            with pytest.raises(UsageError, match="open"):
                misuse()
        with pytest.raises(UsageError, match="empty"):
            writer.begin({"recording_id": None})
        writer.begin({"recording_id": "a", "state_width": 8})
        with pytest.raises(UsageError, match="'a' has not ended"):
            writer.begin({"recording_id": "b"})
        writer.append_states(states)
        with pytest.raises(UsageError, match="6 tokens and 5 rows of states"):
            writer.end(token_table(6))
        with pytest.raises(UsageError, match="fit rows of"):
            writer.append_states(np.zeros((5, 3, 4), np.uint16))
        writer.end(token_table(5))
        with pytest.raises(UsageError, match="states of width 0; this shard's have 8"):
            writer.begin({"recording_id": "without states"})
        with pytest.raises(UsageError, match="in this shard already"):
            writer.begin({"recording_id": "a", "state_width": 8})
        assert writer.publish().counts["recordings"] == 1


def test_prefixes_refuse_an_id_twice(tmp_path: Path) -> None:
    part = call_part("x", 5)
    with PrefixShardWriter(tmp_path, 0) as writer:
        streams = {name: part.streams[name] for name in ("codes", "text", "role")}
        writer.add({"prefix_id": "p", "voice": "v"}, streams)
        with pytest.raises(UsageError, match="in this shard already"):
            writer.add({"prefix_id": "p"}, streams)
        assert writer.publish().counts == {"prefixes": 1, "frames": 5}


def test_an_empty_shard_is_a_shard(root: str) -> None:
    with CallShardWriter(root, 0) as writer:
        assert writer.publish().counts["calls"] == 0
    assert CallPart(row={}, streams={}).words.height == 0
