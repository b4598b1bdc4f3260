"""`open_store` and calls: what was put in comes out, locally and from an object store."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import inkplex_data as ink
from inkplex_data.errors import MissingLibraryError, StoreCorruptError, StoreError, UsageError
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.problems import Problem
from inkplex_data.store import reader
from inkplex_data.store.call import Call
from inkplex_data.store.describe import configuration_digest, write_description
from inkplex_data.store.format import CALLS, WORDS
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.verify import verify_store
from tests.store.made import Made, make_store


def test_what_goes_in_comes_out(root: str) -> None:
    torch = pytest.importorskip("torch")
    made = make_store(root)
    store = ink.open_store(root)
    assert store.complete and len(store) == 4 and store.root == root
    assert store.call_ids == list(made.parts)
    assert store.description == {"format": 1, "codec": {"id": "made"}}
    for call_id, part in made.parts.items():
        call = store.call(call_id)
        assert call.frames == part.frames and call.row["family"] == part.row["family"]
        assert set(call.row) == set(CALLS)
        assert call.codes.dtype == np.uint16 and np.array_equal(call.codes, part.streams["codes"].T)
        for name in ("text", "role", "mask", "level"):
            value, stored = getattr(call, name), part.streams[name]
            assert value.dtype == stored.dtype and np.array_equal(value, stored.T)
        assert call.words.columns == [name for name in WORDS if name != "call_ix"]
        assert call.words.equals(part.words.drop("call_ix"))
        assert call.versions.columns == [name for name in VERSIONS if name != "call_ix"]
        assert call.versions.equals(part.versions.drop("call_ix"))
        assert call.problems.rows() == [(call_id, "words", "made-up", "info", "word 1", "a message", None)]
        assert call.recording_id == part.row.get("recording_id")
        if call.recording_id is None:
            assert call.states is None and call.states_u16 is None
            assert call.tokens.height == 0 and list(call.tokens.schema) == [
                n for n in TOKENS if n != "recording_ix"
            ]
        else:
            assert call.tokens.equals(made.tokens[call.recording_id].drop("recording_ix"))
            states = made.states[call.recording_id]
            assert np.array_equal(call.states_u16, states)
            assert call.states.dtype == torch.bfloat16 and call.states.shape == states.shape
            assert np.array_equal(call.states.view(torch.int16).numpy().view(np.uint16), states)
    assert call_id in store and "nobody" not in store


def test_two_voices_from_one_store(made: Made) -> None:
    store = ink.open_store(made.root)
    call = store.call("first")
    anna, ben = call.with_prefix(), call.with_prefix(voice="ben")
    assert (anna.prefix_frames, ben.prefix_frames) == (12, 13)
    assert ben.prefix.row["split"] == "train"
    assert store.call("fourth").with_prefix(voice="ben", role="clerk").prefix.row["split"] == "test"
    assert not np.array_equal(anna.codes[:, :12], ben.codes[:, :12])
    for composed in (anna, ben):
        p = composed.prefix_frames
        assert composed.frames == p + call.frames
        assert composed.codes.shape == (16, p + call.frames) and composed.codes.dtype == np.uint16
        assert np.array_equal(composed.codes[:, p:], call.codes)
        assert np.array_equal(composed.text[p:], call.text) and set(composed.text[:p]) == {3}
        assert np.array_equal(composed.role[p:], call.role) and set(composed.role[:p]) == {4}
        assert np.array_equal(composed.mask[p:], call.mask) and set(composed.mask[:p]) == {0}
        assert np.array_equal(composed.states_u16, call.states_u16)
        assert composed.tokens.equals(call.tokens)
        start = call.versions["start"].to_numpy()
        assert np.array_equal(composed.versions["start"], np.where(start == 0, 0, start + p))
        assert np.array_equal(composed.versions["end"], call.versions["end"].to_numpy() + p)
        assert composed.words["start_us"].to_list() == [t + p * 80_000 for t in call.words["start_us"]]
        assert composed.words["frame"].to_list() == [-1, 1 + p, 2 + p]


def test_prefixes_that_are_not_there(made: Made) -> None:
    store = ink.open_store(made.root)
    second = store.call("second").with_prefix()
    assert second.prefix_frames == 0 and np.array_equal(second.codes, store.call("second").codes)
    assert store.call("second").with_prefix(voice=None, role=None).prefix_frames == 15
    with pytest.raises(UsageError) as caught:
        store.call("first").with_prefix(voice="carl")
    assert "no prefix with voice 'carl' and role 'clerk'" in str(caught.value)
    assert "voice 'anna', role 'clerk'; voice 'ben', role 'clerk'; voice None, role None" in str(caught.value)


def test_wrong_memory_builds_versions_anew(made: Made) -> None:
    store = ink.open_store(made.root)
    call, partner = store.call("first"), store.call("third/ünï, 1")
    wrong = call.wrong_memory()
    assert wrong.recording_id == partner.recording_id == "task two"
    assert wrong.recording_starts_at_us == partner.recording_starts_at_us == 0
    assert np.array_equal(wrong.codes, call.codes) and wrong.frames == call.frames
    assert np.array_equal(wrong.states_u16, partner.states_u16) and wrong.tokens.equals(partner.tokens)
    expected = build_versions(partner.tokens, SessionClock(0, 0, call.frames))
    assert expected.height > 0 and wrong.versions.equals(expected)
    p = wrong.with_prefix().prefix_frames
    assert wrong.with_prefix().versions.equals(
        build_versions(partner.tokens, SessionClock(0, p, p + call.frames))
    )
    with pytest.raises(UsageError, match="no partner"):
        partner.wrong_memory()


def test_what_is_not_there(made: Made, tmp_path: Path) -> None:
    store = ink.open_store(made.root)
    with pytest.raises(
        UsageError, match=r"no call 'frist' in snapshot 1\n  → There are 4: 'first', 'second'"
    ):
        store.call("frist")
    with pytest.raises(StoreError, match=r"no store here: store\.json is missing\n  → Check the path"):
        ink.open_store(tmp_path / "nowhere")
    write_description(tmp_path / "new", {})
    assert ink.open_store(tmp_path / "new").call_ids == []
    (tmp_path / "new/store.json").write_text('{"format": 2}')
    with pytest.raises(StoreError, match="has format 2; this version reads format 1"):
        ink.open_store(tmp_path / "new")
    (tmp_path / "new/store.json").write_text("{")
    with pytest.raises(StoreCorruptError, match="is not JSON"):
        ink.open_store(tmp_path / "new")


def test_a_shard_without_shard_json_is_not_there(made: Made) -> None:
    """In a snapshot it is a loss, and opening says so rather than training on less."""
    Path(made.root, "calls/000001/shard.json").unlink()
    with pytest.raises(StoreCorruptError, match="shard calls/000001 of snapshot 1 is gone"):
        ink.open_store(made.root)


def test_many_threads_and_other_processes(made: Made) -> None:
    store = pickle.loads(pickle.dumps(ink.open_store(made.root)))

    def read(call_id: str) -> bool:
        call, part = store.call(call_id), made.parts[call_id]
        right = np.array_equal(call.codes, part.streams["codes"].T) and call.versions.equals(
            part.versions.drop("call_ix")
        )
        states = call.states_u16
        return right and (states is None or np.array_equal(states, made.states[call.recording_id]))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, list(made.parts) * 10))
    store.close()
    assert read("first")


def test_parts_kept_open_are_bounded(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_OPEN_PARTS", 3)
    store = ink.open_store(made.root)
    for call_id in list(made.parts) * 2:
        assert np.array_equal(store.call(call_id).codes, made.parts[call_id].streams["codes"].T)
        assert len(store._parts) <= 3


def test_states_without_torch_name_the_pip_line(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ink.open_store(made.root).call("first")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingLibraryError, match=r"pip install \"inkplex-data\[train\]\""):
        _ = call.states
    assert call.states_u16 is not None


def test_opening_needs_neither_torch_nor_zarr() -> None:
    code = (
        "import sys, inkplex_data.store.reader, inkplex_data.store.shard, inkplex_data.store.verify;"
        "print(sorted({'torch', 'zarr', 'dask', 'transformers', 'soundfile'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_digest_of_a_configuration_ignores_the_order_of_keys() -> None:
    assert configuration_digest({"a": 1, "b": [1, 2]}) == configuration_digest({"b": [1, 2], "a": 1})
    assert configuration_digest({"a": 1}) != configuration_digest({"a": 2})


def test_a_call_needs_only_what_is_asked(made: Made) -> None:
    """Damage elsewhere does not stop a call from being read."""
    for path in ("calls/000000/arrays.zarr/codes/c/0/0", "calls/000000/words.parquet"):
        Path(made.root, path).unlink()
    call = ink.open_store(made.root).call("first")
    assert isinstance(call, Call) and call.text.shape == (3_000,) and call.versions.height == 5
    for name in ("codes", "words"):
        with pytest.raises(StoreCorruptError, match="missing"):
            getattr(call, name)
    assert isinstance(call.row["call_ix"], int) and isinstance(call.problems, pl.DataFrame)


def test_files_exchanged_between_shards(made: Made) -> None:
    """Each is sound, but not what was published in its place: no call gets another's."""
    other = Path(made.root).parent / "other"
    shutil.copytree(made.root, other)
    for name in ("arrays.zarr/codes/c/0/0", "arrays.zarr/mask/c/0", "words.parquet", "calls.parquet"):
        shutil.copyfile(other / "calls/000001" / name, Path(made.root, "calls/000000", name))
    (Path(made.root) / "calls.parquet").unlink()
    with pytest.raises(StoreCorruptError, match=r"calls/000000/calls.parquet: has .* were published"):
        ink.open_store(made.root).call("first")
    shutil.copyfile(other / "calls.parquet", Path(made.root, "calls.parquet"))
    shutil.copyfile(other / "calls/000000/calls.parquet", Path(made.root, "calls/000000/calls.parquet"))
    call = ink.open_store(made.root).call("first")
    for name in ("codes", "mask", "words"):
        with pytest.raises(StoreCorruptError, match="were published"):
            getattr(call, name)
    assert call.text.shape == (3_000,)


def test_a_whole_shard_exchanged(made: Made) -> None:
    folder = Path(made.root, "calls")
    for one, two in (("000000", "x"), ("000001", "000000"), ("x", "000001")):
        (folder / one).rename(folder / two)
    for path in folder.glob("*/shard.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"shard": int(path.parent.name)}))
    with pytest.raises(StoreCorruptError, match="is not the one that the snapshot lists"):
        _ = ink.open_store(made.root).call("first").codes


def test_an_index_that_is_being_replaced(made: Made) -> None:
    """Whoever reads meanwhile gets the old rows or the new, and no word of damage."""
    done = threading.Event()

    def publish() -> None:
        try:
            for number in range(12):
                publish_snapshot(made.root, refused=[Problem("lost", "words", "x", "info", "", str(number))])
        finally:
            done.set()

    writer = threading.Thread(target=publish)
    writer.start()
    reads = 0
    while not done.is_set() or reads < 3:
        with ink.open_store(made.root) as store:
            assert store.call_ids == list(made.parts)
            said = store.problems().collect().filter(call_id="lost")["message"].to_list()
            assert len(said) == 1
        reads += 1
    writer.join()
    assert ink.open_store(made.root).problems().collect().filter(call_id="lost")["message"].to_list() == [
        "11"
    ]


def test_a_store_of_before_the_digests_is_read(made: Made) -> None:
    """Snapshots without `files`: the index is believed, and `newest.json` is not asked for."""
    path = Path(made.root, "snapshots/000001.json")
    document = json.loads(path.read_text())
    old = {key: document[key] for key in ("format", "snapshot", "shards", "refused")}
    for shard in old["shards"]:
        shard.pop("states", None)
    path.write_text(json.dumps(old))
    Path(made.root, "newest.json").unlink()
    store = ink.open_store(made.root)
    assert store.catalog.indexed("calls") and store.call_ids == list(made.parts)
    assert store.call("first").states_u16 is not None and store.pieces() is not None
    assert verify_store(made.root) == []
    assert publish_snapshot(made.root).number == 2
    assert verify_store(made.root) == []
    assert ink.open_store(made.root, 1).call_ids == list(made.parts)


LIMITED = """
import resource, sys
import inkplex_data as ink

store = ink.open_store(sys.argv[1])
store.calls().collect()
import os
used = max(map(int, os.listdir("/proc/self/fd")))  # of the listing itself, so closed again
resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
for read in (lambda: store.call("first").codes, lambda: store.call("first").words, lambda: store.call("first").states_u16):
    try:
        read()
    except ink.errors.StoreError as error:
        print(error)
"""


def test_no_more_open_files(made: Made) -> None:
    """In a process of its own, whose limit is what it has open: each read says which file, and what to do."""
    command = [sys.executable, "-c", LIMITED, made.root]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.count("the system refuses access: Too many open files\n  → Allow this process") == 3
    assert (
        done.stdout.count(made.root) == 3 and "Traceback" not in done.stderr and "ignored" not in done.stderr
    )
