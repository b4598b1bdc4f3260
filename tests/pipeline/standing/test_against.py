"""A store against its corpus, built once more: nothing differs, until the corpus or the store does."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.pipeline.standing import against
from inkplex_data.store.format import CALLS, RECORDINGS, TABLES
from tests.audit.made import Bench


def test_every_table_of_a_call_is_compared_and_no_place_of_rows() -> None:
    offsets = {name for name in (*CALLS, *RECORDINGS) if name.endswith("_offset")}
    assert offsets <= against._PLACES
    assert {*against._OF_CALLS} == TABLES["calls"].keys() - {"calls", "problems"}


def test_a_store_is_what_its_corpus_gives(own_corpus: Path, own_store: Path) -> None:
    """And then a word is stored otherwise, and the corpus has lost a call."""
    command = ["audit", str(own_store), "--against", str(own_corpus), "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    bench = Bench(own_store)
    bench.change_table(
        "words",
        lambda table: table.with_columns(start_us=pl.col("start_us") + 5_000 * (pl.col("word_ix") == 3)),
    )
    bench.mend()
    lines = own_corpus.read_text().splitlines()
    own_corpus.write_text("\n".join(lines[:-1]) + "\n")
    for name in ("newest.json", "snapshots/000001.json"):
        (own_store / name).unlink()
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 1
    said = {fault["where"]: fault["rule"] for fault in map(json.loads, result.output.splitlines()[:-1])}
    assert said["three"] == "the corpus gives no such call"
    assert said["two"] == "row 3 of its words has the start_us 805000, and 800000 from its sources"
