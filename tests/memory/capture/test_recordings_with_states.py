"""Recordings that bring their states: captured ones and imported ones are the states themselves, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from safetensors.torch import load_file

from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.traces.importer import import_traces
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import RecordingError, UsageError
from inkplex_data.memory.capture.inkling import Inkling
from inkplex_data.memory.capture.recordings_with_states import (
    attach_states,
    capture_recording,
    write_states_file,
)
from inkplex_data.memory.capture.state_source import CapturedStates, state_source

CHAT = [
    {"role": "user", "content": "My bill?"},
    {"role": "assistant", "content": "One moment.", "tool_calls": [{"function": {"name": "bill"}}]},
    {"role": "tool", "name": "bill", "content": "80"},
    {"role": "assistant", "content": "Eighty."},
]
WIDTH = 4


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    (one,) = import_traces(tmp_path / "chat.json", tmp_path / "in", tokenizer="o200k").written
    return one.path


def bits(path: Path) -> np.ndarray:
    """All states that a recording brings."""
    source = state_source(list(read_recording(path)), None)
    assert source is not None and source.kind == "imported"
    return np.concatenate(list(source.chunks()))


def engine_files(folder: Path, recording: Path, *, name: str = "req_{}_states") -> dict[int, np.ndarray]:
    """What an engine leaves: float32 rows of every request's computed tokens."""
    folder.mkdir()
    found = {}
    for request in read_recording(recording):
        rows = np.random.default_rng(request.call).standard_normal((len(request), 3, WIDTH), np.float32)
        found[request.call] = rows
        save_file({"states": rows}, folder / f"{name.format(request.call)}.safetensors")
    return found


def test_captured_states_are_those_of_the_build(
    recording: Path, small_inkling: Inkling, tmp_path: Path
) -> None:
    model = small_inkling
    done: list[tuple[int, int]] = []
    result = capture_recording(
        recording, tmp_path / "out", model, chunk_tokens=5, progress=lambda *at: done.append(at)
    )
    requests = list(read_recording(recording))
    captured = CapturedStates(requests, model, 5, recording.name)
    np.testing.assert_array_equal(bits(result.path), np.concatenate(list(captured.chunks())))
    assert validate_path(result.path) == []
    header = read_recording(result.path).header
    assert header.model == "small:0" and header.times == "constructed"
    assert header.provenance is not None and header.provenance["capture"]["untrained"] is True  # type: ignore[index,call-overload]
    total = sum(map(len, requests))
    assert done[-1] == (total, total) and (result.tokens, result.requests) == (total, 2)
    # Another library reads the files.
    rows = load_file(tmp_path / "out" / "chat-0000.states" / "000000.safetensors")["states"]
    assert rows.shape == (len(requests[0]), 3, model.width) and str(rows.dtype) == "torch.bfloat16"


def test_engine_captures_join_their_requests(recording: Path, tmp_path: Path) -> None:
    rows = engine_files(tmp_path / "engine", recording)
    result = attach_states(recording, tmp_path / "engine", tmp_path / "out")
    assert (result.width, result.recording) == (WIDTH, "chat-0000")
    expected = np.concatenate([rows[call] for call in sorted(rows)])
    got = (bits(result.path).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(got, expected, rtol=2**-8)
    plain, stated = (list(read_recording(path)) for path in (recording, result.path))
    assert [request.ids.tolist() for request in plain] == [request.ids.tolist() for request in stated]
    assert all(request.states_path is not None for request in stated)


def test_files_that_lie_there_already_are_named_in_their_place(recording: Path, tmp_path: Path) -> None:
    engine = recording.parent / "engine"
    engine_files(engine, recording)
    result = attach_states(recording, engine, recording.parent)
    assert result.path == recording
    assert [request.states_path for request in read_recording(recording)] == [
        engine / f"req_{call}_states.safetensors" for call in (0, 1)
    ]
    assert not (recording.parent / "chat-0000.states").exists()
    # A second time changes nothing, and files from elsewhere take the place of the first.
    again = recording.read_bytes()
    attach_states(recording, engine, recording.parent)
    assert recording.read_bytes() == again
    rows = engine_files(tmp_path / "later", recording, name="{}")
    attach_states(recording, tmp_path / "later", recording.parent)
    expected = np.concatenate([rows[call] for call in sorted(rows)])
    np.testing.assert_allclose(
        (bits(recording).astype(np.uint32) << 16).view(np.float32), expected, rtol=2**-8
    )


def test_requests_that_computed_nothing_need_no_file(recording: Path, tmp_path: Path) -> None:
    with recording.open("a") as file:
        file.write('{"call":2,"tokens":[]}\n')
    engine_files(tmp_path / "engine", recording)
    (tmp_path / "engine" / "req_2_states.safetensors").unlink()
    written = read_recording(attach_states(recording, tmp_path / "engine", tmp_path / "out").path)
    assert [request.states_path is None for request in written] == [False, False, True]
    header = recording.read_text().splitlines()[0]
    recording.write_text(header + '\n{"call":0,"tokens":[]}\n')
    with pytest.raises(UsageError, match="no request of the recording computed a token"):
        attach_states(recording, tmp_path / "engine", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_files_that_do_not_match(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    engine_files(folder, recording)
    (folder / "req_1_states.safetensors").rename(folder / "one.safetensors")
    with pytest.raises(UsageError, match=r"no states of request 1.*\n.*there is req_0_states"):
        attach_states(recording, folder, tmp_path / "out")
    (folder / "one.safetensors").rename(folder / "00.safetensors")
    with pytest.raises(
        UsageError, match=r"00\.safetensors and req_0_states\.safetensors are both of request 0"
    ):
        attach_states(recording, folder, tmp_path / "out")
    (folder / "00.safetensors").rename(folder / "req_1_states.safetensors")
    (folder / "engine-7.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"engine-7\.safetensors belongs to no request.* no request 7"):
        attach_states(recording, folder, tmp_path / "out")
    with pytest.raises(UsageError, match="there is no such folder"):
        attach_states(recording, tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no safetensors file with a number"):
        attach_states(recording, tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_do_not_fit(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    rows = engine_files(folder, recording)
    save_file({"states": rows[1][1:]}, folder / "req_1_states.safetensors")
    with pytest.raises(RecordingError, match=f"{len(rows[1])} computed tokens need"):
        attach_states(recording, folder, tmp_path / "out")
    save_file({"states": rows[1][:, :, :2].copy()}, folder / "req_1_states.safetensors")
    with pytest.raises(RecordingError, match=r"have width 2, those of req_0_states\.safetensors have 4"):
        attach_states(recording, folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    rows[1][3, 1, 2] = np.nan
    save_file({"states": rows[1]}, folder / "req_1_states.safetensors")
    with pytest.raises(RecordingError, match="finite"):
        attach_states(recording, folder, tmp_path / "out")
    # Nothing half-written is left, and the recording that would name it is not there.
    names = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert names == ["000000.safetensors"]


def test_blocks_that_are_not_what_was_promised(tmp_path: Path) -> None:
    block = np.zeros((2, 3, WIDTH), np.uint16)
    with pytest.raises(ValueError, match="4 rows of states for 5 tokens"):
        write_states_file(tmp_path / "a.safetensors", [block, block], tokens=5, width=WIDTH)
    with pytest.raises(ValueError, match="block of shape"):
        write_states_file(tmp_path / "a.safetensors", [block], tokens=2, width=WIDTH + 1)
    assert not list(tmp_path.iterdir())
