"""`verify_store` finds each kind of fault, names its place, and says nothing about a sound store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from inkplex_data.errors import StoreError
from inkplex_data.faults import Fault
from inkplex_data.store.files import open_files
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import RecordingShardWriter
from inkplex_data.store.verify import verify_store
from tests.store.made import (
    Made,
    add_calls,
    add_recordings,
    call_part,
    make_store,
    publish_again,
    token_table,
)


def test_a_sound_store_has_no_faults(root: str) -> None:
    make_store(root)
    seen: list[tuple[str, int, int]] = []
    assert verify_store(root, progress=lambda key, done, total: seen.append((key, done, total))) == []
    assert seen[-1][1] == seen[-1][2] > 100_000
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def flip(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


CALLS, RECORDINGS, SNAPSHOT = "calls/000000", "recordings/000000", "snapshots/000001.json"
STATES = f"{RECORDINGS}/arrays.zarr/states"


@pytest.mark.parametrize(
    ("path", "damage", "codes"),
    [
        (f"{STATES}/c/0/0/0", flip, {"wrong-digest", "damaged"}),
        (f"{STATES}/c/0/0/0", cut, {"wrong-size", "damaged"}),
        (f"{STATES}/c/0/0/0", Path.unlink, {"missing-file", "damaged"}),
        (f"{STATES}/zarr.json", Path.unlink, {"missing-file", "damaged"}),
        (f"{CALLS}/arrays.zarr/mask/c/1", Path.unlink, {"missing-file", "damaged"}),
        (f"{CALLS}/arrays.zarr/codes/c/0/0", flip, {"wrong-digest", "damaged"}),
        (f"{CALLS}/arrays.zarr/text/zarr.json", cut, {"wrong-size", "damaged"}),
        (f"{CALLS}/words.parquet", cut, {"wrong-size"}),
        (f"{CALLS}/calls.parquet", Path.unlink, {"missing-file"}),
        (f"{RECORDINGS}/tokens.parquet", flip, {"wrong-digest"}),
        (f"{CALLS}/shard.json", Path.unlink, {"not-published", "missing-shard"}),
        (f"{CALLS}/shard.json", cut, {"damaged", "missing-shard"}),
        (f"{CALLS}", shutil.rmtree, {"missing-shard"}),
        ("store.json", cut, {"wrong-size"}),
        (SNAPSHOT, cut, {"changed-snapshot", "damaged"}),
        (SNAPSHOT, Path.unlink, {"no-snapshot", "missing-snapshot"}),
        ("newest.json", cut, {"damaged"}),
        ("newest.json", Path.unlink, {"unfinished-snapshot"}),
        ("calls.parquet", Path.unlink, {"stale-index"}),
        ("problems.parquet", cut, {"wrong-size"}),
        ("tokenizer.parquet", cut, {"wrong-size"}),
        ("splits.parquet", flip, {"wrong-digest"}),
    ],
)
def test_damage(made: Made, path: str, damage: Callable[[Path], object], codes: set[str]) -> None:
    damage(Path(made.root, path))
    faults = verify_store(made.root)
    found = {fault.code for fault in faults}
    assert codes <= found <= codes | {"damaged", "missing-target", "stale-index"}
    assert any(path.rsplit("/", maxsplit=1)[0] in fault.where for fault in faults)
    for fault in faults:
        assert fault.rule and fault.next_step and str(fault).count("\n") == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("calls/000007/words.parquet", "not-published"),
        ("recordings/.tmp-000001-dead/x", "leftover"),
        ("prefixes/backup/x", "unknown-name"),
        ("calls/000000/notes.txt", "unlisted-file"),
        ("snapshots/.tmp-000002.json-dead", "leftover"),
        (".tmp-index-dead/calls.parquet", "leftover"),
    ],
)
def test_what_does_not_belong(made: Made, name: str, code: str) -> None:
    Path(made.root, name).parent.mkdir(parents=True, exist_ok=True)
    Path(made.root, name).write_bytes(b"x")
    [fault] = verify_store(made.root)
    assert fault.code == code
    if code == "not-published":
        assert "has no shard.json, so it was never published" in fault.rule


def only(faults: list[Fault], code: str) -> Fault:
    assert [fault.code for fault in faults] == [code]
    return faults[0]


def test_shards_that_no_snapshot_lists(made: Made) -> None:
    add_calls(made, 2, [call_part("fifth", 5)])
    assert only(verify_store(made.root), "unlisted-shard").where.endswith("calls/000002")
    publish_snapshot(made.root)
    assert verify_store(made.root) == []


def test_a_shard_exchanged_for_another(made: Made) -> None:
    """Sound in itself, but not what the snapshot lists."""
    shutil.rmtree(Path(made.root, CALLS))
    add_calls(made, 0, [call_part("other", 5)])
    assert (
        "lists calls/000000 with a shard.json that differs"
        in only(verify_store(made.root), "changed-shard").rule
    )


def test_relations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_store(tmp_path)
    add_calls(
        made,
        2,
        [
            call_part("first", 5),
            call_part("x", 5, recording_id="no such", prefix_id="p9", wrong_memory_of="nobody"),
            call_part("y", 5, family="family of fourth", split="train", audio_sha256="audio of second"),
        ],
    )
    add_recordings(made, 1, {"task one": 3})
    with pytest.raises(StoreError, match="family 'family of fourth' is in the splits test and train"):
        publish_snapshot(tmp_path)
    with monkeypatch.context() as patch:  # as a writer that does not look would
        patch.setattr("inkplex_data.store.publish_snapshot.family_splits", lambda calls, where: calls)
        publish_snapshot(tmp_path)
    said = "\n".join(str(fault) for fault in verify_store(tmp_path))
    for sentence in (
        "call 'first' is stored more than once",
        "recording 'task one' is stored more than once",
        "call 'x' names recording_id 'no such', which is not stored",
        "call 'x' names prefix_id 'p9', which is not stored",
        "call 'x' names wrong_memory_of 'nobody', which is not stored",
        "family 'family of fourth' is in the splits test, train",
        "audio_sha256 'audio of second' is in the families family of fourth, family of second",
    ):
        assert sentence in said


def test_counts_and_offsets_against_each_other(made: Made) -> None:
    """Digests are right, because whoever wrote the shard wrote them; its parts do not fit each other."""
    folder = Path(made.root, "recordings/000001")
    with RecordingShardWriter(made.root, 1) as writer:
        writer.begin({"recording_id": "r"})
        writer.end(token_table(4))
        writer.publish()
    document = json.loads((folder / "shard.json").read_text())
    document["counts"]["tokens"] = 5
    (folder / "shard.json").write_text(json.dumps(document))
    publish_snapshot(made.root)
    faults = verify_store(made.root)
    assert {fault.code for fault in faults} == {"wrong-count", "wrong-offsets"}
    assert all("recordings/000001" in fault.where for fault in faults)


def test_versions_outside_their_call(tmp_path: Path) -> None:
    made = make_store(tmp_path, finished=False)
    part = call_part("late", 5)
    part.versions = part.versions.with_columns(end=part.versions["end"] + 5)
    add_calls(made, 2, [part])
    publish_snapshot(tmp_path)
    fault = only(verify_store(tmp_path), "wrong-versions")
    assert "5 versions are outside their call's frames" in fault.rule and "'late'" in fault.rule


def test_a_table_of_other_columns(made: Made) -> None:
    path = Path(made.root, CALLS, "words.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["speaker"]), path)
    publish_again(made.root, CALLS, "words.parquet")
    faults = verify_store(made.root)
    assert "wrong-columns" in {fault.code for fault in faults}
    assert any("its columns speaker are missing" in fault.rule for fault in faults)


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store here"):
        verify_store(tmp_path)
    assert open_files(tmp_path).names("") == []
