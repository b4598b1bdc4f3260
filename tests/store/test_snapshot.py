"""Snapshots pin what a reader sees, and carry refused calls until they are built."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.problems import Problem
from inkplex_data.store.describe import write_description
from inkplex_data.store.files import open_files
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import open_store
from inkplex_data.store.snapshot import read_snapshot, snapshot_numbers
from tests.store.made import Made, add_calls, add_recordings, call_part, make_store, problem


def refused(store_root: str, snapshot: int | None = None) -> list[str]:
    problems = open_store(store_root, snapshot).problems().collect()
    return problems.filter(severity="info", code="unexpected")["call_id"].to_list()


def test_a_reader_keeps_its_snapshot(root: str) -> None:
    made = make_store(root)
    with open_store(root) as store:
        before = [store.calls().collect(), store.problems().collect(), store.frames().collect()]
        add_calls(made, 2, [call_part("lost", 9), call_part("fifth", 8)])
        add_recordings(made, 1, {"task three": 4}, width=0)
        second = publish_snapshot(root, refused=[problem("sixth", "unexpected")])
        assert second.number == 2 and snapshot_numbers(root) == [1, 2]
        after = [store.calls().collect(), store.problems().collect(), store.frames().collect()]
        pinned = open_store(root, 1)
        again = [pinned.calls().collect(), pinned.problems().collect(), pinned.frames().collect()]
        assert all(a.equals(b) and a.equals(c) for a, b, c in zip(before, after, again, strict=True))
        assert "fifth" not in store
    newest = open_store(root)
    assert newest.call_ids == ["first", "second", "third/ünï, 1", "fourth", "lost", "fifth"]
    # "lost" was refused once and is there now; snapshot 1 still says so.
    assert refused(root) == ["sixth"] and refused(root, 1) == ["lost"]
    assert newest.tokens().collect()["recording_id"].unique().sort().to_list() == [
        "task one",
        "task three",
        "task two",
    ]


def test_notes_on_the_corpus_are_those_of_the_newest_build(root: str) -> None:
    make_store(root)

    def noted(*problems: Problem) -> list[str]:
        publish_snapshot(root, refused=problems)
        table = open_store(root).problems().filter(pl.col("call_id") == "").collect()
        return table["message"].to_list()

    first, other = (Problem.of("files-ignored", "", name, item="corpus") for name in ("a.txt", "b.txt"))
    assert noted(first) == ["a.txt"]
    assert noted(first) == ["a.txt"] and read_snapshot(root).number == 2  # nothing changed, nothing written
    assert noted(other) == ["b.txt"] and noted() == []
    assert refused(root) == ["lost"]


def test_index_and_shards_say_the_same(root: str) -> None:
    make_store(root)
    files = open_files(root)
    with_index = open_store(root)
    tables = ["calls", "recordings", "prefixes", "problems"]
    assert all(with_index.catalog.indexed(table) for table in tables)  # type: ignore[arg-type]
    indexed = {name: getattr(with_index, name)().collect() for name in tables}
    for name in [*tables, "splits"]:
        files.remove(f"{name}.parquet")
    without = open_store(root)
    assert not any(without.catalog.indexed(table) for table in tables)  # type: ignore[arg-type]
    for name in tables:
        assert getattr(without, name)().collect().equals(indexed[name])
    assert without.splits().collect().equals(with_index.splits().collect())


def test_an_index_of_another_store_is_not_used(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Made(str(tmp_path / "other"))
    write_description(other.root, {})
    add_calls(other, 0, [call_part("elsewhere", 9)])
    publish_snapshot(other.root)
    shutil.copy(tmp_path / "other/calls.parquet", made.root)
    assert open_store(made.root).call_ids == list(made.parts)
    assert "calls.parquet: this index is not one that was published" in caplog.text


def test_nothing_new_gives_no_new_snapshot(root: str) -> None:
    make_store(root)
    assert publish_snapshot(root).number == 1
    assert publish_snapshot(root, refused=[problem("lost", "unexpected", "it was refused")]).number == 1
    assert publish_snapshot(root, refused=[problem("lost", "unexpected", "for another reason")]).number == 2
    assert [p.message for p in read_snapshot(root).refused] == ["for another reason"]


def test_unfinished_build_shows_what_is_published(root: str) -> None:
    made = make_store(root, finished=False)
    store = open_store(root)
    assert not store.complete and store.snapshot.number == 0
    assert store.call_ids == list(made.parts)
    files = open_files(root)
    files.remove("calls/000001/shard.json")
    assert open_store(root).call_ids == ["first", "second"]
    assert open_store(root).frames().collect()["call_id"].n_unique() == 2


def test_a_number_that_is_not_there(root: str) -> None:
    make_store(root)
    with pytest.raises(StoreError, match=r"no snapshot 7\n  → Open one of these: 1"):
        open_store(root, 7)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"snapshot": 2},
        {"shards": [{"kind": "calls", "shard": "../x", "sha256": "", "counts": {}}]},
        {"shards": [{"kind": "../x", "shard": 0, "sha256": "", "counts": {}}]},
        {"shards": [5]},
        {"refused": [{"call_id": 5}]},
        {"refused": ["x"]},
        {"refused": None},
    ],
)
def test_a_snapshot_that_is_none_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    make_store(tmp_path)
    path = tmp_path / "snapshots/000001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StoreCorruptError) as caught:
        open_store(tmp_path)
    assert str(path) in str(caught.value)
