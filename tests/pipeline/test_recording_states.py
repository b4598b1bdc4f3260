"""States on their way into a store: captured with the small model, imported from files, once per recording."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import inkplex_data as ink
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.recordings.states_identity import StatesIdentity
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import ConfigError, Interrupted, RecordingError
from inkplex_data.memory.capture.capture_states import capture_states
from inkplex_data.memory.capture.recordings_with_states import capture_recording
from inkplex_data.pipeline import shards, tools
from inkplex_data.pipeline.recording_states import load_states
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build
from inkplex_data.store.verify import verify_store
from tests.memory.identified import identify_files
from tests.pipeline.conftest import RATE_HZ, tree, voice, write_manifest
from tests.quick_codec import QUICK

BASE = {"codec.id": QUICK, "prefix": None, "words.source": "none"}


def token(index: int, at: float) -> dict[str, Any]:
    return {"id": 1000 + index, "kind": "thinking", "text": f" w{index}", "at": at}


def write_recording(
    folder: Path, name: str, sizes: list[int], *, width: int | None = None, forked: bool = False
) -> Path:
    """`NAME.recording.jsonl` with one request per size; `width` gives each states of its own."""
    lines: list[dict[str, Any]] = [{"schema": "inkplex/recording@1", "recording": name, "model": "inkling"}]
    for call, size in enumerate(sizes):
        line: dict[str, Any] = {"call": call, "tokens": [token(i, 0.3 * call) for i in range(size)]}
        if forked and call:
            line["cached"] = {"call": call - 1, "tokens": sizes[call - 1] // 2}
        if width:
            states = torch.randn(size, 3, width, generator=torch.Generator().manual_seed(call)).bfloat16()
            line["states"] = f"{name}-{call}.safetensors"
            save_file({"states": states}, folder / line["states"])
        lines.append(line)
    path = folder / f"{name}.recording.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if width:
        identify_files(path)
    return path


def write_calls(folder: Path, recordings: list[str | None]) -> Path:
    """A manifest with one call of a second for each entry; all have the same audio and family."""
    stereo = np.stack([voice(1, 1.0, 120), voice(2, 1.0, 210)], axis=1)
    soundfile.write(folder / "call.wav", stereo, RATE_HZ, subtype="PCM_16")
    lines: list[dict[str, object]] = []
    for index, recording in enumerate(recordings):
        line: dict[str, object] = {"id": f"call-{index}", "path": "call.wav", "family": "f"}
        if recording is not None:
            line |= {"recording": f"{recording}.recording.jsonl", "recording_starts_at": 0.1 * index}
        lines.append(line)
    return write_manifest(folder, lines)


def job(path: Path, store: Path, **overrides: Any) -> RecordingJob:
    return RecordingJob(build=Build(load_recipe(None, BASE | overrides), store, path.parent), path=path)


def again(path: Path, states: torch.Tensor) -> None:
    """Other states in the same file, which says of itself what it said before."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file({"states": states}, path, metadata)


def states_of(found: FoundRecording, unit: RecordingJob) -> np.ndarray:
    return np.concatenate(list(load_states(RECORDING.folder(unit), found.states)))


CAPTURE = {"memory.capture": {"model": "small:0", "chunk_tokens": 16, "device": "cpu"}}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Recipe]:
    """Ten calls over one recording of two requests, and the store: (recording, store, recipe)."""
    folder = tmp_path_factory.mktemp("captured")
    recording = write_recording(folder, "task", [30, 12], forked=True)
    manifest = write_calls(folder, ["task"] * 10)
    recipe = load_recipe(None, BASE | CAPTURE)
    summary = build_store(manifest, folder / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    assert "untrained, for tests only: small:0" in summary.text()
    return recording, folder / "store", recipe


def test_ten_calls_share_the_captured_states_of_their_recording(
    captured: tuple[Path, Path, Recipe],
) -> None:
    recording, root, _ = captured
    requests = list(read_recording(recording))
    model = tools.inkling("small:0", "float32", "cpu")
    parts = [states for _, _, states in capture_states(requests, model, chunk_tokens=16)]
    expected = np.concatenate(parts)
    store = ink.open_store(root)
    versions = []
    for index in range(10):
        call = store.call(f"call-{index}")
        np.testing.assert_array_equal(call.states_u16, expected)
        versions.append(call.versions)
    assert any(not versions[0].equals(other) for other in versions[1:]), "each call has its own start"
    # One chunk of 64 rows of 3 × 64 values, and nothing for the other nine calls.
    stored = sum(path.stat().st_size for path in root.rglob("states/c/*/0/0"))
    assert 64 * 3 * 64 * 2 <= stored < 64 * 3 * 64 * 2 + 4096
    assert verify_store(root) == []


def test_the_store_says_what_captured_its_states(captured: tuple[Path, Path, Recipe]) -> None:
    _, root, _ = captured
    model = tools.inkling("small:0", "float32", "cpu").identity
    store = ink.open_store(root)
    row = store.recordings().collect().row(0, named=True)
    assert (row["states"], row["state_width"], row["tokens"]) == ("captured", 64, 42)
    said = StatesIdentity.model_validate(json.loads(row["states_identity"]))
    assert (said.model, said.revision, said.width, said.dtype) == ("small:0", model.sha256, 64, "float32")
    assert said.untrained and not said.unidentified and "chunks of 16 tokens" in str(said.runtime_profile)
    assert store.description["model"] == said.described() and row["model"] == "small:0"


def test_every_request_has_the_digest_of_its_rows(captured: tuple[Path, Path, Recipe]) -> None:
    store = ink.open_store(captured[1])
    states = store.call("call-0").states_u16
    digests = [
        hashlib.sha256(states[part].astype("<u2").tobytes()).hexdigest()
        for part in (slice(30), slice(30, 42))
    ]
    assert store.recordings().collect()["state_digests"].to_list() == [
        [{"request": 0, "rows": 30, "sha256": digests[0]}, {"request": 1, "rows": 12, "sha256": digests[1]}]
    ]


def test_capturing_first_gives_the_store_of_a_build_that_captures(
    captured: tuple[Path, Path, Recipe], tmp_path: Path
) -> None:
    recording, root, recipe = captured
    model = tools.inkling("small:0", "float32", "cpu")
    shutil.copy(recording.with_name("call.wav"), tmp_path)
    manifest = shutil.copy(recording.with_name("manifest.jsonl"), tmp_path)
    capture_recording(recording, tmp_path, model, chunk_tokens=16)
    summary = build_store(tmp_path / "manifest.jsonl", tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0 and "untrained, for tests only: small:0" in summary.text(), manifest
    direct, second = tree(root), tree(tmp_path / "store")
    # What was read is not the same: the recording now names files. What it says of that is all that differs.
    rows = [ink.open_store(path).recordings().collect().to_dicts() for path in (root, tmp_path / "store")]
    named = {"content_sha256", "files"}
    assert [{k: v for k, v in row.items() if k not in named} for row in rows[0]] == [
        {k: v for k, v in row.items() if k not in named} for row in rows[1]
    ]
    apart = {name for name in direct.keys() | second.keys() if direct.get(name) != second.get(name)}
    assert {name for name in apart if not name.startswith("snapshots/")} <= {
        "recordings.parquet",
        "recordings/000000/recordings.parquet",
        "recordings/000000/shard.json",
        "newest.json",
    }


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(captured: tuple[Path, Path, Recipe], tmp_path: Path) -> None:
    recording, root, recipe = captured
    build_store(recording.with_name("manifest.jsonl"), tmp_path / "store", recipe=recipe, workers=2)
    assert tree(tmp_path / "store") == tree(root)


def test_a_store_has_the_states_of_one_model_and_those_without_in_shards_of_their_own(tmp_path: Path) -> None:
    for name, width in (("a", 8), ("b", 16), ("c", 8), ("d", None)):
        write_recording(tmp_path, name, [7, 3], width=width)
    manifest = write_calls(tmp_path, ["a", "b", "c", "d", None])
    root = tmp_path / "store"
    summary = build_store(manifest, root, recipe=load_recipe(None, BASE), workers=1)
    assert summary.exit_code == 3, summary.text()
    [refused] = summary.refused
    assert (refused.call_id, refused.code) == ("call-1", "recording-states-differ")
    assert "width 8 and 16" in refused.message
    store = ink.open_store(root)
    table = store.recordings().collect().sort("recording_id")
    assert table["states"].to_list() == ["imported", "imported", "none"]
    assert table["state_width"].to_list() == [8, 8, 0]
    assert table["shard"].to_list() == [0, 0, 1]
    identities = [json.loads(text) if text else None for text in table["states_identity"]]
    assert [said and said["model"] for said in identities] == ["made/engine", "made/engine", None]
    assert store.description["model"]["id"] == "made/engine"
    assert verify_store(root) == []
    expected = torch.cat(
        [torch.randn(n, 3, 8, generator=torch.Generator().manual_seed(i)) for i, n in enumerate((7, 3))]
    ).bfloat16()
    states = store.call("call-0").states
    assert states is not None
    assert torch.equal(states, expected)


def test_faults_of_states_refuse_only_the_calls_that_need_them(tmp_path: Path) -> None:
    write_recording(tmp_path, "good", [4], width=8)
    mixed = write_recording(tmp_path, "mixed", [4, 2], width=8)
    lines = [json.loads(line) for line in mixed.read_text().splitlines()]
    del lines[2]["states"]
    mixed.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_recording(tmp_path, "short", [4], width=8)
    save_file({"states": torch.zeros(3, 3, 8).bfloat16()}, tmp_path / "short-0.safetensors")
    manifest = write_calls(tmp_path, ["mixed", "good", "short"])
    summary = build_store(manifest, tmp_path / "store", recipe=load_recipe(None, BASE), workers=1)
    assert summary.exit_code == 3
    assert summary.calls == ("call-1",)
    reasons = {problem.call_id: problem for problem in summary.refused}
    assert reasons["call-0"].code == "recording-states-mixed"
    assert "mixed.recording.jsonl:3" in reasons["call-0"].message
    assert reasons["call-2"].code == "recording-states-invalid"
    assert "short.recording.jsonl:2: short-0.safetensors" in reasons["call-2"].message


def test_a_model_that_is_not_to_be_had_stops_the_build(tmp_path: Path) -> None:
    write_recording(tmp_path, "task", [4])
    manifest = write_calls(tmp_path, ["task"])
    recipe = load_recipe(None, BASE | {"memory.capture": {"model": "nobody/nothing"}})
    with pytest.raises(ConfigError, match="cannot be downloaded") as caught:
        build_store(manifest, tmp_path / "store", recipe=recipe, workers=1)
    assert "small:0" in str(caught.value)


def test_a_rerun_takes_captured_states_from_the_ledger(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [20]), tmp_path / "store", **CAPTURE)
    found = RECORDING.perform(unit)
    [array] = (tmp_path / "store" / ".build" / RECORDING.name).rglob("c/0/0/0")
    before = array.stat()
    assert RECORDING.perform(unit) == found
    assert array.stat() == before
    assert states_of(found, unit).shape == (20, 3, 64)


def test_files_of_states_that_change_between_runs_are_read_again(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [5], width=8), tmp_path / "store")
    first = RECORDING.perform(unit)
    assert RECORDING.perform(unit) == first
    ahead = torch.arange(1.0, 121.0).reshape(5, 3, 8).bfloat16()
    again(tmp_path / "task-0.safetensors", ahead)
    with pytest.raises(RecordingError, match="changed after it was checked"):
        states_of(first, unit)
    second = RECORDING.perform(unit)
    assert second.sha256 != first.sha256
    np.testing.assert_array_equal(states_of(second, unit), ahead.view(torch.int16).numpy().view(np.uint16))


def test_a_build_refuses_states_that_no_model_computes(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [5], width=8), tmp_path / "store")
    again(tmp_path / "task-0.safetensors", torch.ones(5, 3, 8).bfloat16())
    with pytest.raises(RecordingError, match="tokens 1 to 4") as refused:
        RECORDING.perform(unit)
    assert refused.value.code == "recording-states-repeated"


def test_imported_states_win_over_a_model(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [5], width=8), tmp_path / "store", **CAPTURE)
    found = RECORDING.perform(unit)
    assert (found.states.kind, found.states.width) == ("imported", 8)
    assert RECORDING.do(unit).found == found


def test_additions_must_have_states_of_the_stores_model(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_recording(tmp_path, name, [4], width=8)
    identify_files(tmp_path / "c.recording.jsonl", revision="2")
    recipe = load_recipe(None, BASE)
    build_store(write_calls(tmp_path, ["a"]), tmp_path / "store", recipe=recipe, workers=1)
    manifest = write_calls(tmp_path, ["a", "b", "c"])
    summary = build_store(manifest, tmp_path / "store", recipe=recipe, workers=1, add=True)
    assert summary.calls == ("call-1",)
    [refused] = summary.refused
    assert (refused.call_id, refused.code) == ("call-2", "recording-states-differ")
    assert "revision '1' and '2'" in refused.message


def test_unidentified_states_need_leave_and_are_marked_for_ever(tmp_path: Path) -> None:
    path = write_recording(tmp_path, "a", [4], width=8)
    header, line = path.read_text().splitlines()
    said = {key: value for key, value in json.loads(header).items() if key != "states_identity"}
    path.write_text(f"{json.dumps(said)}\n{line}\n")
    manifest, root = write_calls(tmp_path, ["a"]), tmp_path / "store"
    summary = build_store(manifest, root, recipe=load_recipe(None, BASE), workers=1)
    assert [problem.code for problem in summary.refused] == ["recording-states-unidentified"]
    assert [fault.code for fault in validate_path(path)] == ["recording-states-unidentified"]
    recipe = load_recipe(None, BASE | {"memory.accept_unidentified_states": True})
    summary = build_store(manifest, root, recipe=recipe, workers=1)
    assert summary.exit_code == 0 and "do not say which model" in summary.text()
    store = ink.open_store(root)
    assert json.loads(store.recordings().collect()["states_identity"][0])["unidentified"] is True
    assert store.description["model"]["unidentified"] is True


def test_captured_rows_lie_once_on_the_disk_and_survive_another_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build stops within the third of three shards, and goes on with a corpus that puts the third recording first."""
    for size, name in enumerate("abc", start=9):
        write_recording(tmp_path, name, [size])
    recipe = load_recipe(None, BASE | CAPTURE | {"store.shard_bytes": 1})
    write_shard = shards.write_recording_shard

    def stopping(target: Any, shard: int, members: Any) -> None:
        if shard == 2:
            raise KeyboardInterrupt
        write_shard(target, shard, members)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_recording_shard", stopping)
        with pytest.raises((KeyboardInterrupt, Interrupted)):
            build_store(write_calls(tmp_path, ["a", "b", "c"]), tmp_path / "store", recipe=recipe, workers=1)
    ledger = tmp_path / "store" / ".build" / "recordings"
    assert [len(list(ledger.glob(f"*/{name}"))) for name in ("stamp.json", "moved.json", "states")] == [
        3,
        2,
        1,
    ]

    manifest = write_calls(tmp_path, ["c", "a", "b"])
    with monkeypatch.context() as patch:
        patch.setattr(tools, "inkling", lambda *_: pytest.fail("what was captured is captured again"))
        assert build_store(manifest, tmp_path / "store", recipe=recipe, workers=1).exit_code == 0
    assert build_store(manifest, tmp_path / "other", recipe=recipe, workers=1).exit_code == 0
    assert tree(tmp_path / "store") == tree(tmp_path / "other")
