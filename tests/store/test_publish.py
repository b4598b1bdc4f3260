"""Publishing under interruption: whatever the moment, the store opens with what was published before,
and a rerun ends in the bytes of a build that was never interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from inkplex_data.errors import StoreCorruptError, StoreError
from inkplex_data.store import publish, shard
from inkplex_data.store.describe import write_description
from inkplex_data.store.files import open_files
from inkplex_data.store.format import FORMAT
from inkplex_data.store.publish import published_shards, read_shard
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import open_store
from inkplex_data.store.shard import CallShardWriter, RecordingShardWriter
from inkplex_data.store.snapshot import snapshot_numbers
from inkplex_data.store.verify import verify_store
from tests.store.made import call_part, problem, token_table


class Killed(BaseException):
    """The process ends here."""


VISIBLE = [(os, "link"), (Path, "rename"), (Path, "replace")]
"""What changes names in a local store; between two of these nothing a reader sees changes."""
DURABLE = [(os, "fsync"), (Path, "write_bytes")]
OBJECTS = [(MemoryFileSystem, "pipe_file"), (MemoryFileSystem, "put_file")]


@contextmanager
def killed_at(step: int, kinds: list[tuple[Any, str]]) -> Iterator[None]:
    """Stop at the `step`-th call of one of `kinds`, and let nothing clean up."""
    taken = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if taken[0] == step:
                raise Killed
            taken[0] += 1
            return function(*args, **kwargs)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in kinds:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        # A killed process runs no handlers.
        patch.setattr(publish.StagedShard, "abort", lambda self: None)
        patch.setattr(shard.StatesWriter, "abort", lambda self: None)
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        yield


def build(root: str) -> None:
    """What a build does, in its order; like a build, it goes on from what is published."""
    files = open_files(root)
    write_description(root, {"codec": {"id": "made"}})
    if read_shard(files, "recordings", 0) is None:
        with RecordingShardWriter(root, 0) as recordings:
            recordings.begin({"recording_id": "task", "state_width": 8})
            recordings.append_states(shard.np.ones((5, 3, 8), shard.np.uint16))
            recordings.end(token_table(5))
            recordings.publish()
    for number in range(2):
        if read_shard(files, "calls", number) is None:
            with CallShardWriter(root, number) as calls:
                calls.add(call_part(f"c{number}", 30))
                calls.publish()
    publish_snapshot(root, refused=[problem("lost")])


def content(root: str) -> dict[str, bytes | None]:
    files = open_files(root)
    return {key: files.read(key) for key in files.tree("") if not key.startswith(".tmp-index")}


def check_every_step(whole_root: str, root: str, kinds: list[tuple[Any, str]], stride: int) -> int:
    """first_k + remaining == all: for every step k, killed there and run again. The number of steps."""
    build(whole_root)
    whole = content(whole_root)
    assert verify_store(whole_root) == []
    finished, step = False, 0
    while not finished:
        place = f"{root}-at-{step}"
        try:
            with killed_at(step, kinds):
                build(place)
                finished = True
        except Killed:
            pass
        if open_files(place).read("store.json") is not None:
            check_opens(place)
        build(place)
        assert content(place) == whole
        step += stride
    return step


def check_opens(root: str) -> None:
    """What is published is there, whole; what is not is named by verify, and nothing is damaged."""
    with open_store(root) as store:
        shards = published_shards(root, "calls")
        assert store.call_ids == [f"c{info.shard}" for info in shards]
        for call_id in store.call_ids:
            assert (store.call(call_id).codes == call_part(call_id, 30).streams["codes"].T).all()
        assert store.frames().collect().height == 30 * len(shards)
        assert store.complete == (len(snapshot_numbers(root)) == 1)
        assert store.problems().collect().height == len(shards) + store.complete
    codes = {fault.code for fault in verify_store(root)}
    assert codes <= {
        "leftover", "not-published", "no-snapshot", "unlisted-shard", "unfinished-snapshot", "stale-index"
    }  # fmt: skip


def test_killed_at_any_visible_step(tmp_path: Path) -> None:
    assert check_every_step(str(tmp_path / "whole"), str(tmp_path / "store"), VISIBLE, 1) > 12


def rows(root: str, snapshot: int | None = None) -> list[list[tuple[Any, ...]]]:
    with open_store(root, snapshot) as store:
        tables = (store.calls(), store.problems(), store.words(), store.recordings(), store.splits())
        return [table.collect().rows() for table in tables]


def test_the_snapshot_before_stays_whole(tmp_path: Path) -> None:
    """Killed at any step of adding to a store: the first snapshot reads as ever, and a rerun ends the work."""

    def add(root: str) -> None:
        if read_shard(open_files(root), "calls", 2) is None:
            with CallShardWriter(root, 2) as calls:
                calls.add(call_part("c2", 30))
                calls.publish()
        publish_snapshot(root)

    build(str(tmp_path / "begun"))
    before = rows(str(tmp_path / "begun"))
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    add(str(tmp_path / "whole"))
    whole, after = content(str(tmp_path / "whole")), rows(str(tmp_path / "whole"))
    finished, step = False, 0
    while not finished:
        place = shutil.copytree(tmp_path / "begun", tmp_path / f"at-{step}")
        with suppress(Killed), killed_at(step, VISIBLE):
            add(str(place))
            finished = True
        assert rows(str(place), 1) == before
        assert rows(str(place)) == (after if finished else before)
        add(str(place))
        assert content(str(place)) == whole and rows(str(place)) == after
        step += 1
    assert step > 8


def test_killed_between_objects(tmp_path: Path) -> None:
    assert check_every_step(str(tmp_path / "whole"), "memory://store", OBJECTS, 4) > 30


@pytest.mark.slow
def test_killed_at_any_step(tmp_path: Path) -> None:
    assert check_every_step(str(tmp_path / "whole"), str(tmp_path / "a"), VISIBLE + DURABLE, 1) > 100
    assert check_every_step(str(tmp_path / "whole"), "memory://a", OBJECTS, 1) > 30


def document(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "shard.json").read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format=2), "does not describe shard 0 of kind calls, format 1"),
        (lambda d: d.update(kind="prefixes"), "does not describe"),
        (lambda d: d.update(shard=1), "does not describe"),
        (lambda d: d.update(files=[]), "field 'files' is missing or wrong"),
        (lambda d: d.update(counts={"calls": "many"}), "field 'calls' is missing or wrong"),
        (
            lambda d: d["files"].update({"../../secret": {"size_bytes": 1, "sha256": "0" * 64}}),
            "not a path inside",
        ),
        (
            lambda d: d["files"].update({"/etc/passwd": {"size_bytes": 1, "sha256": "0" * 64}}),
            "not a path inside",
        ),
        (
            lambda d: d["files"].update({"x": {"size_bytes": -1, "sha256": "0" * 64}}),
            "invalid size or digest",
        ),
        (
            lambda d: d["files"].update({"x": {"size_bytes": 1, "sha256": "zz"}}),
            "invalid size or digest",
        ),
        (lambda d: d["files"].update({"x": 5}), "has no size and digest"),
    ],
)
def test_a_shard_json_that_lies_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with CallShardWriter(tmp_path, 0) as writer:
        writer.add(call_part("a", 5))
        writer.publish()
    folder = tmp_path / "calls/000000"
    changed = document(folder)
    assert changed["format"] == FORMAT and set(changed["files"]) == {
        p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != "shard.json"
    }
    change(changed)
    (folder / "shard.json").write_text(json.dumps(changed))
    with pytest.raises(StoreCorruptError, match=message):
        published_shards(tmp_path, "calls")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_shard_json_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "calls/000000").mkdir(parents=True)
    (tmp_path / "calls/000000/shard.json").write_bytes(data)
    with pytest.raises(
        StoreCorruptError, match=r"is not JSON|not a JSON object|is not UTF-8|is nested more than"
    ):
        published_shards(tmp_path, "calls")


def test_two_builds_cannot_write_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(str(tmp_path))
    monkeypatch.setattr("inkplex_data.store.publish_snapshot._last", lambda files: (None, None))
    with pytest.raises(StoreError, match="another build wrote snapshot 1"):
        publish_snapshot(tmp_path)
