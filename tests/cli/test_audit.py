"""`audit` and `versions` on a store made without a codec."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.grid import MASK_ALL, PAD
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.speech.prefix import build_prefix
from inkplex_data.store.describe import write_description
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import PrefixShardWriter, RecordingShardWriter
from tests.store.made import Made, add_calls, call_part, publish_again

FRAMES = 30
CLOCK = SessionClock(1_000_000, 0, FRAMES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One call with a true memory of ten tokens and a prefix, and one call without memory."""
    made = Made(str(tmp_path / "store"))
    write_description(made.root, {"configuration": {"memory": {"window": 8}}})
    rows = range(10)
    tokens = pl.DataFrame(
        {
            "row": list(rows),
            "call": [0] * 10,
            "position": list(rows),
            "token_id": list(rows),
            "kind": ["user"] * 10,
            "bytes": [b" word"] * 10,
            "special": [False] * 10,
            "media": [None] * 10,
            "arrival_us": [500_000 + 300_000 * row for row in rows],
            "rank": list(rows),
            "word_ix": list(rows),
            "piece_ids": [[5]] * 10,
        }
    )
    with RecordingShardWriter(made.root, 0) as writer:
        writer.begin({"recording_id": "task", "state_width": 0})
        writer.end(tokens)
        writer.publish()
    versions = build_versions(tokens, CLOCK, window=8)
    with_memory = call_part(
        "with", FRAMES, words=0, recording_id="task", recording_starts_at_us=1_000_000, prefix_id="p0"
    )
    with_memory.versions = versions
    parts = [with_memory, call_part("without", 5, words=0, versions=0)]
    for part in parts:
        frames = len(part.streams["text"])
        part.streams["text"], part.streams["role"] = (
            np.full(frames, PAD, np.int32),
            np.zeros(frames, np.uint8),
        )
        part.streams["mask"] = np.full(frames, MASK_ALL, np.uint8)
    add_calls(made, 0, parts)
    prefix = build_prefix(None, [], None)
    with PrefixShardWriter(made.root, 0) as prefixes:
        row = {
            "prefix_id": "p0",
            "voice": None,
            "role": None,
            "split": None,
            "voice_frames": 0,
            "role_pieces": 0,
        }
        prefixes.add(row, {"codes": prefix.codes, "text": prefix.text, "role": prefix.role})
        prefixes.publish()
    publish_snapshot(made.root)
    return tmp_path / "store"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_clean_store(store: Path) -> None:
    result = run("audit", store)
    assert result.exit_code == 0, result.output
    assert "2 calls (1 without memory) over 1 recording:" in result.output
    assert "no violation" in result.output
    totals = json.loads(run("audit", store, "--json").output)
    # The call's steps, and the 12 of its prefix with the one after them.
    assert totals["steps"] == FRAMES + 13
    assert totals["tokens"] == 10


def test_chosen_calls_and_a_log(store: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    result = run("audit", store, "without", "--log", log)
    assert result.exit_code == 0, result.output
    assert "1 call (1 without memory) over 0 recordings" in result.output
    lines = log.read_text().splitlines()
    assert run("audit", store, "without", "--log", log).output == result.output
    assert log.read_text().splitlines() == lines
    assert "no call 'nobody'" in str(run("audit", store, "nobody").exception)


def test_states_that_are_not_there_cannot_be_computed_again(store: Path) -> None:
    result = run("audit", store, "--states-sample", 5)
    assert result.exit_code != 0
    assert "no states that are asked for" in str(result.exception)


def test_a_violation_is_named_and_gives_exit_code_1(store: Path) -> None:
    path = store / "calls" / "000000" / "versions.parquet"
    table = pl.read_parquet(path).with_columns(pl.col("age") + 1)
    pq.write_table(table.to_arrow().cast(pq.read_schema(path)), path)
    publish_again(str(store), "calls/000000", "versions.parquet")
    result = run("audit", store)
    assert result.exit_code == 1
    assert result.output.startswith(
        "with: step 0 (session time 1000000 µs): token row 0 (request 0, position 0)"
    )
    violation, totals = map(json.loads, run("audit", store, "--json").output.splitlines())
    assert violation["where"] == "with" and "age bucket" in violation["rule"]
    assert totals["calls"] == 2


def test_versions_of_a_call(store: Path) -> None:
    result = run("versions", store, "with", "--limit", "4")
    assert result.exit_code == 0, result.output
    shown = json.loads(run("versions", store, "with", "--json").output)
    versions = build_versions(
        pl.read_parquet(store / "recordings" / "000000" / "tokens.parquet"), CLOCK, window=8
    )
    assert (shown["versions"], shown["steps"], shown["tokens"]) == (len(versions), FRAMES, 10)
    assert sum(shown["recency"]) == sum(shown["age"]) == len(versions)
    at = versions.filter((pl.col("start") <= FRAMES - 1) & (pl.col("end") > FRAMES - 1))
    assert (shown["live_first"], shown["live_last"], shown["live_most"]) == (2, len(at), 8)
    assert shown["chunks"][0][0] == 0 and shown["chunks"][-1][1] == FRAMES
    composed = json.loads(run("versions", store, "with", "--prefix", "--json").output)
    assert composed["steps"] == FRAMES + 12
    assert "0 versions of 0 tokens" in run("versions", store, "without").output
