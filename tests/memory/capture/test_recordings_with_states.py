"""Recordings that bring their states: captured ones and imported ones are the states themselves, bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from safetensors.torch import load_file
from safetensors.torch import save_file as save_torch

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
from tests.memory.identified import engine, metadata_of

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
    recording = read_recording(path)
    source = state_source(recording.header, list(recording), None)
    assert source is not None
    return np.concatenate([block for _, block in source.blocks()])


def engine_files(
    folder: Path, recording: Path, *, name: str = "req_{}_states", **changes: Any
) -> dict[int, np.ndarray]:
    """What an engine leaves: float32 rows of every request's computed tokens, their ids, and what it is."""
    folder.mkdir()
    found = {}
    requests = list(read_recording(recording))
    for request in requests:
        rows = np.random.default_rng(request.call).standard_normal((len(request), 3, WIDTH), np.float32)
        if not len(request):
            continue
        found[request.call] = rows
        path = folder / f"{name.format(request.call)}.safetensors"
        metadata = metadata_of(requests, request.call, engine(WIDTH, **changes))
        save_file({"states": rows, "token_ids": request.ids}, path, metadata)
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
    captured = CapturedStates(read_recording(recording).header, requests, model, 5, recording.name)
    expected = np.concatenate([states for _, states in captured.blocks()])
    np.testing.assert_array_equal(bits(result.path), expected)
    assert validate_path(result.path) == []
    header = read_recording(result.path).header
    assert header.model == "small:0" and header.times == "constructed"
    assert header.states_identity == captured.identity == result.identity
    assert captured.identity.untrained and captured.identity.captured and "(untrained)" in result.text()
    total = sum(map(len, requests))
    assert done[-1] == (total, total) and (result.tokens, result.requests) == (total, 2)
    # Another library reads the files.
    tensors = load_file(tmp_path / "out" / "chat-0000.states" / "000000.safetensors")
    rows = tensors["states"]
    assert tensors["token_ids"].tolist() == requests[0].ids.tolist()
    assert rows.shape == (len(requests[0]), 3, model.width) and str(rows.dtype) == "torch.bfloat16"


def test_engine_captures_join_their_requests(recording: Path, tmp_path: Path) -> None:
    rows = engine_files(tmp_path / "engine", recording)
    result = attach_states(recording, tmp_path / "engine", tmp_path / "out")
    assert (result.identity.model, result.recording) == ("made/engine", "chat-0000")
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
    first, second = (folder / f"req_{call}_states.safetensors" for call in (0, 1))
    second.rename(folder / "one.bin")
    with pytest.raises(UsageError, match=r"no states of request 1.*\n.*there is req_0_states"):
        attach_states(recording, folder, tmp_path / "out")
    # The file itself says which request it is of, whatever it is called.
    shutil.copy(first, second)
    with pytest.raises(
        UsageError, match=r"req_0_states\.safetensors and req_1_states\.safetensors are both of request 0"
    ):
        attach_states(recording, folder, tmp_path / "out")
    second.unlink()
    for name, what in (("one", "its name no number"), ("1-of-2", "its name 2 numbers")):
        save_file({"states": np.ones((2, 3, WIDTH), np.float32)}, folder / f"{name}.safetensors")
        with pytest.raises(UsageError, match=what):
            attach_states(recording, folder, tmp_path / "out")
        (folder / f"{name}.safetensors").unlink()
    (folder / "one.bin").rename(second)
    save_file({"states": np.ones((2, 3, WIDTH), np.float32)}, folder / "engine-7.safetensors")
    with pytest.raises(UsageError, match=r"engine-7\.safetensors belongs to no request.* no request 7"):
        attach_states(recording, folder, tmp_path / "out")
    with pytest.raises(UsageError, match="there is no such folder"):
        attach_states(recording, tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no safetensors file"):
        attach_states(recording, tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_do_not_fit(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    rows = engine_files(folder, recording)
    requests = list(read_recording(recording))
    path, metadata = folder / "req_1_states.safetensors", metadata_of(requests, 1, engine(WIDTH))
    save_file({"states": rows[1][1:]}, path, metadata)
    with pytest.raises(RecordingError, match=f"{len(rows[1])} computed tokens need"):
        attach_states(recording, folder, tmp_path / "out")
    save_file({"states": rows[1][:, :, :2].copy()}, path, metadata)
    with pytest.raises(RecordingError, match=r"have width 2, those of req_0_states\.safetensors have 4"):
        attach_states(recording, folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    rows[1][3, 1, 2] = np.nan
    save_file({"states": rows[1]}, path, metadata)
    with pytest.raises(RecordingError, match="finite"):
        attach_states(recording, folder, tmp_path / "out")
    # Nothing half-written is left, and the recording that would name it is not there.
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_blocks_that_are_not_what_was_promised(tmp_path: Path) -> None:
    block, ids = np.zeros((2, 3, WIDTH), np.uint16), np.zeros(5, np.int32)
    path = tmp_path / "a.safetensors"
    with pytest.raises(ValueError, match="4 rows of states for 5 tokens"):
        write_states_file(path, [block, block], ids=ids, identity=engine(WIDTH), request=0)
    with pytest.raises(ValueError, match="block of shape"):
        write_states_file(path, [block], ids=ids[:2], identity=engine(WIDTH + 1), request=0)
    assert not list(tmp_path.iterdir())


OTHERS = {
    "model": {"model": "made/other"},
    "revision": {"revision": "2"},
    "tokenizer_sha256": {"tokenizer_sha256": "cd" * 32},
    "runtime_profile": {"runtime_profile": "engine 2"},
    "dtype": {"dtype": "float32"},
    "untrained": {"untrained": True},
}


@pytest.mark.parametrize("field", OTHERS)
def test_files_of_two_models_are_never_one_recordings(recording: Path, tmp_path: Path, field: str) -> None:
    engine_files(tmp_path / "engine", recording)
    engine_files(tmp_path / "other", recording, **OTHERS[field])
    shutil.copy(tmp_path / "other" / "req_1_states.safetensors", tmp_path / "engine")
    with pytest.raises(RecordingError, match=field) as refused:
        attach_states(recording, tmp_path / "engine", tmp_path / "out")
    assert refused.value.code == "recording-states-differ"
    assert not (tmp_path / "out").exists()


def changed(path: Path, *, ids: np.ndarray | None = None, **metadata: str | None) -> None:
    """Write a file of states anew with other token ids or metadata; None takes a field away."""
    with safe_open(path, "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said = {**file.metadata(), **metadata}
    if ids is not None:
        tensors["token_ids"] = ids
    save_file(tensors, path, {name: value for name, value in said.items() if value is not None})


@pytest.mark.parametrize(
    ("metadata", "code", "what"),
    [
        ({"request": "0"}, None, "both of request 0"),
        ({"input_sha256": "ef" * 32}, "recording-states-differ", "of another input"),
        ({"width": "5"}, "recording-states-differ", "width 5, its tensor has 4"),
        ({"revision": None}, "recording-states-unidentified", "lacks revision"),
        ({"streams": None}, "recording-states-unidentified", "lacks streams"),
        ({"tokenizer_sha256": "short"}, "recording-states-unidentified", "tokenizer_sha256"),
        (
            {"streams": "completed_block_output:28,raw_auxiliary:34,final_normalized"},
            "recording-states-streams",
            "'raw_auxiliary:34' is not a stream",
        ),
        (
            {"streams": "completed_block_output:34,completed_block_output:28,final_normalized"},
            "recording-states-streams",
            "not completed_block_output:28",
        ),
    ],
)
def test_what_a_file_says_of_itself_is_compared(
    recording: Path, tmp_path: Path, metadata: dict[str, str | None], code: str | None, what: str
) -> None:
    engine_files(tmp_path / "engine", recording)
    changed(tmp_path / "engine" / "req_1_states.safetensors", **metadata)
    with pytest.raises(UsageError if code is None else RecordingError, match=what) as refused:
        attach_states(
            recording,
            tmp_path / "engine",
            tmp_path / "out",
            accept_unidentified=code != "recording-states-unidentified",
        )
    assert code is None or refused.value.code == code  # type: ignore[union-attr]


def test_states_of_other_tokens_name_the_first_that_differs(recording: Path, tmp_path: Path) -> None:
    engine_files(tmp_path / "engine", recording)
    ids = list(read_recording(recording))[1].ids.copy()
    ids[3] += 1
    changed(tmp_path / "engine" / "req_1_states.safetensors", ids=ids)
    with pytest.raises(RecordingError, match=f"token 3 has id {ids[3]}, that of request 1 {ids[3] - 1}"):
        attach_states(recording, tmp_path / "engine", tmp_path / "out")


def test_unidentified_states_pass_only_with_leave_and_stay_marked(recording: Path, tmp_path: Path) -> None:
    engine_files(tmp_path / "engine", recording)
    for call in (0, 1):
        path = tmp_path / "engine" / f"req_{call}_states.safetensors"
        save_file({"states": load_file(path)["states"].numpy()}, path)
    with pytest.raises(RecordingError, match="do not say which model") as refused:
        attach_states(recording, tmp_path / "engine", tmp_path / "out")
    assert refused.value.code == "recording-states-unidentified"
    result = attach_states(recording, tmp_path / "engine", tmp_path / "out", accept_unidentified=True)
    assert "unidentified" in result.text() and validate_path(result.path) == []
    stated = read_recording(result.path)
    source = state_source(stated.header, list(stated), None)
    assert source is not None and source.identity.unidentified
    # What was marked cannot lose its mark on a second way, and files that lose theirs are no longer the recording's.
    again = attach_states(
        result.path, tmp_path / "out" / "chat-0000.states", tmp_path / "again", accept_unidentified=True
    )
    assert again.identity.unidentified
    header = stated.header.model_copy(update={"states_identity": None})
    with pytest.raises(RecordingError, match="its header and the files do not say"):
        state_source(header, list(stated), None)


def test_identified_files_without_a_header_that_says_so_are_refused(recording: Path, tmp_path: Path) -> None:
    engine_files(tmp_path / "engine", recording)
    path = attach_states(recording, tmp_path / "engine", tmp_path / "out").path
    stated = read_recording(path)
    requests, said = list(stated), stated.header.states_identity
    assert said is not None
    other = stated.header.model_copy(update={"states_identity": said.of_input("ef" * 32)})
    with pytest.raises(RecordingError, match="header and its states differ: input efef"):
        state_source(other, requests, None)
    for name in ("000000", "000001"):
        file = tmp_path / "out" / "chat-0000.states" / f"{name}.safetensors"
        save_torch(load_file(file), file)
    with pytest.raises(RecordingError, match="do not say which model"):
        state_source(stated.header, requests, None)


def test_a_capture_goes_on_in_the_middle_of_a_recording(
    recording: Path, small_inkling: Inkling, tmp_path: Path
) -> None:
    """The first request's states are there: they are not written again, and the others are those of one run."""
    once = capture_recording(recording, tmp_path / "once", small_inkling, chunk_tokens=5)
    again = tmp_path / "again" / "chat-0000.states"
    again.mkdir(parents=True)
    shutil.copy(tmp_path / "once" / "chat-0000.states" / "000000.safetensors", again)
    mark = (again / "000000.safetensors").stat()
    seen: list[tuple[int, int]] = []
    result = capture_recording(
        recording, tmp_path / "again", small_inkling, chunk_tokens=5, progress=lambda *at: seen.append(at)
    )
    assert (again / "000000.safetensors").stat().st_ino == mark.st_ino
    assert seen[0][0] > len(next(iter(read_recording(recording)))) and seen[-1][0] == seen[-1][1]
    np.testing.assert_array_equal(bits(result.path), bits(once.path))
    # Other chunks are other states: all are computed.
    other = capture_recording(recording, tmp_path / "again", small_inkling, chunk_tokens=4)
    assert (again / "000000.safetensors").stat().st_ino != mark.st_ino and validate_path(other.path) == []
