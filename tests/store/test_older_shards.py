"""Shards that were written before a column or table was added are read as if it held nothing, and verify."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import inkplex_data as ink
from inkplex_data.store.digests import digest_file
from inkplex_data.store.format import ADDED, TABLES, added_columns, with_added
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.verify import verify_store
from tests.store.made import make_store, publish_again


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A made store without anything of `ADDED`."""
    root = tmp_path / "store"
    make_store(root)
    for folder in (path.parent for path in root.glob("*/*/shard.json")):
        document = json.loads((folder / "shard.json").read_text())
        for path in folder.glob("*.parquet"):
            kept = [name for name in pq.read_schema(path).names if name not in ADDED.get(path.stem, ())]
            if not kept:
                path.unlink()
                del document["files"][path.name], document["counts"][path.stem]
                continue
            pq.write_table(pq.read_table(path, columns=kept), path)
            document["files"][path.name] = vars(digest_file(path))
        (folder / "shard.json").write_text(json.dumps(document))
    shutil.rmtree(root / "snapshots")
    (root / "newest.json").unlink()
    publish_snapshot(str(root))
    return root


def test_what_is_added_is_nullable_and_named_once() -> None:
    for name, columns in ADDED.items():
        schemas = [schema for tables in TABLES.values() for table, schema in tables.items() if table == name]
        assert len(schemas) == 1
        assert columns <= schemas[0].keys()
        assert added_columns(name).keys() == columns
    assert with_added(pl.DataFrame({"row": [1]}), "tokens")["ready_us"].to_list() == [None]


def test_an_older_store_reads_as_null_and_empty(older: Path) -> None:
    assert verify_store(str(older)) == []
    with ink.open_store(older) as store:
        call = store.call("first")
        assert call.row["evidence"] is None
        assert call.claims.height == call.evidence.height == 0 == store.claims().collect().height
        tokens = store.tokens().collect()
        assert tokens["arrival_us"].null_count() == 0
        assert tokens["available_us"].null_count() == tokens.height == 150 + 71
        assert tokens.columns == ["recording_id", *TABLES["recordings"]["tokens"]]
        assert call.tokens.select("ready_us", "row").row(0) == (None, 0)
        assert call.words.height == 3
        assert store.recordings().collect()["schedule"].to_list() == [None, None]
        assert store.calls().select("evidence").collect()["evidence"].to_list() == [None] * 4


def test_a_column_that_was_always_there_may_not_be_missing(older: Path) -> None:
    path = older / "recordings/000000/tokens.parquet"
    pq.write_table(pq.read_table(path).drop(["rank"]), path)
    publish_again(str(older), "recordings/000000", "tokens.parquet")
    assert [fault.code for fault in verify_store(str(older))] == ["wrong-columns"]
