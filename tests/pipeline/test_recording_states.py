"""States on their way into a store: captured with the small model, imported from files, once per recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

import inkplex_data as ink
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.errors import ConfigError, RecordingError
from inkplex_data.memory.capture.capture_states import capture_states
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.recording_states import load_states
from inkplex_data.pipeline.recordings import RECORDING, FoundRecording, RecordingJob
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build
from inkplex_data.store.verify import verify_store
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
    expected = np.concatenate([states for _, _, states in capture_states(requests, model, chunk_tokens=16)])
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
    identity = tools.inkling("small:0", "float32", "cpu").identity.as_dict()
    chunks = {"chunk_tokens": 16, "scores": 768, "smallest": 1}
    store = ink.open_store(root)
    assert store.description["model"] == {**identity, "chunks": chunks}
    row = store.recordings().collect().row(0, named=True)
    assert (row["states"], row["state_width"], row["tokens"]) == ("captured", 64, 42)
    assert json.loads(row["states_from"]) == store.description["model"]


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(captured: tuple[Path, Path, Recipe], tmp_path: Path) -> None:
    recording, root, recipe = captured
    build_store(recording.with_name("manifest.jsonl"), tmp_path / "store", recipe=recipe, workers=2)
    assert tree(tmp_path / "store") == tree(root)


def test_recordings_of_several_widths_go_into_shards_of_their_own(tmp_path: Path) -> None:
    for name, width in (("a", 8), ("b", 16), ("c", 8), ("d", None)):
        write_recording(tmp_path, name, [7, 3], width=width)
    manifest = write_calls(tmp_path, ["a", "b", "c", "d", None])
    root = tmp_path / "store"
    summary = build_store(manifest, root, recipe=load_recipe(None, BASE), workers=1)
    assert summary.exit_code == 0, summary.text()
    store = ink.open_store(root)
    table = store.recordings().collect().sort("recording_id")
    assert table["states"].to_list() == ["imported", "imported", "imported", "none"]
    assert table["state_width"].to_list() == [8, 16, 8, 0]
    assert table["shard"].to_list() == [0, 1, 0, 2]
    assert table["states_from"].to_list() == [*['{"dtype": "bfloat16"}'] * 3, None]
    assert "model" not in store.description
    assert verify_store(root) == []
    expected = torch.cat(
        [torch.randn(n, 3, 16, generator=torch.Generator().manual_seed(i)) for i, n in enumerate((7, 3))]
    ).bfloat16()
    states = store.call("call-1").states
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
    save_file({"states": ahead}, tmp_path / "task-0.safetensors")
    with pytest.raises(RecordingError, match="changed after it was checked"):
        states_of(first, unit)
    second = RECORDING.perform(unit)
    assert second.sha256 != first.sha256
    np.testing.assert_array_equal(states_of(second, unit), ahead.view(torch.int16).numpy().view(np.uint16))


def test_a_build_refuses_states_that_no_model_computes(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [5], width=8), tmp_path / "store")
    save_file({"states": torch.ones(5, 3, 8).bfloat16()}, tmp_path / "task-0.safetensors")
    with pytest.raises(RecordingError, match="tokens 1 to 4") as refused:
        RECORDING.perform(unit)
    assert refused.value.code == "recording-states-repeated"


def test_imported_states_win_over_a_model(tmp_path: Path) -> None:
    unit = job(write_recording(tmp_path, "task", [5], width=8), tmp_path / "store", **CAPTURE)
    found = RECORDING.perform(unit)
    assert (found.states.kind, found.states.width) == ("imported", 8)
    assert RECORDING.do(unit).found == found
