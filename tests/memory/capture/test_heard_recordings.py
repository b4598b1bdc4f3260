"""Recordings with audio tokens: the stretch of a file that each run of them stands for reaches the model as dMel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from inkplex_data.audio.dmel import dmel
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import RecordingError
from inkplex_data.memory.capture.inkling import load_inkling
from inkplex_data.memory.capture.native_input import heard_audio, input_digests
from inkplex_data.memory.capture.recordings_with_states import attach_states, capture_recording
from inkplex_data.memory.capture.state_source import state_source
from tests.memory.tiny import AUDIO_TOKEN

RATE_HZ = 16_000
SPAN = {"token": 2, "path": "heard.wav", "start_s": 0.25, "end_s": 0.5, "channel": 1}
"""Five rows of 50 ms."""


def write(folder: Path, *, audio: Any = (SPAN,), heard: int = 5) -> Path:
    """Two requests over a sound of two channels: the second goes on from all of the first, audio included."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(1).normal(0, 0.1, (RATE_HZ, 2))
    soundfile.write(folder / "heard.wav", noise, RATE_HZ, subtype="PCM_16")
    text = [{"id": index + 5, "kind": "user", "text": f" w{index}", "at": 0} for index in range(2)]
    sound = [{"id": AUDIO_TOKEN, "kind": "user", "media": "audio", "at": 0.5}] * heard
    lines: list[dict[str, Any]] = [
        {"schema": "inkplex/recording@1", "recording": "r"},
        {"call": 0, "tokens": [*text, *sound], "audio": list(audio)},
        {"call": 1, "cached": {"call": 0, "tokens": 2 + heard}, "tokens": [{**text[0], "at": 1}]},
    ]
    path = folder / "r.recording.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_audio_tokens_are_captured_as_the_model_hears_them(
    full_checkpoint: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, stock = full_checkpoint
    path = write(tmp_path / "in")
    [first, second] = read_recording(path)
    samples, _ = soundfile.read(tmp_path / "in" / "heard.wav", dtype="float32")
    rows = dmel(samples[4_000:8_000, 1], RATE_HZ)
    np.testing.assert_array_equal(heard_audio([first, second], source="r")[0], rows)
    ids = np.concatenate([first.ids, second.ids]).astype(np.int64)
    with torch.inference_mode():
        expected = stock.model(
            input_ids=torch.from_numpy(ids)[None],
            audio_input_ids=torch.from_numpy(rows.astype(np.int64))[None],
            output_hidden_states=[29, 35, 42],
        ).hidden_states
    expected = torch.stack([expected[index][0] for index in (29, 35, 42)], dim=1)
    result = capture_recording(
        path, tmp_path / "out", load_inkling(str(folder), dtype="float32", device="cpu")
    )
    parts = [
        load_file(tmp_path / "out" / "r.states" / f"00000{call}.safetensors")["states"] for call in (0, 1)
    ]
    torch.testing.assert_close(torch.cat(parts).float(), expected, atol=2e-2, rtol=2e-2)
    # What was written is whole: its audio lies beside it, and it can be read, checked and joined with its states again.
    assert validate_path(result.path) == []
    written = read_recording(result.path)
    assert [span.path.is_relative_to(tmp_path / "out") for request in written for span in request.audio] == [
        True
    ]
    source = state_source(written.header, list(written), None)
    assert source is not None and source.identity == result.identity
    again = attach_states(path, tmp_path / "out" / "r.states", tmp_path / "again")
    assert again.identity == result.identity
    # States of another sound are not states of this one, although every token id is the same.
    soundfile.write(tmp_path / "in" / "heard.wav", samples[::-1], RATE_HZ, subtype="PCM_16")
    with pytest.raises(RecordingError, match="of another input"):
        attach_states(path, tmp_path / "out" / "r.states", tmp_path / "again")


def test_a_heard_history_is_part_of_every_later_input(tmp_path: Path) -> None:
    requests = list(read_recording(write(tmp_path)))
    audio = heard_audio(requests, source="r")
    one, other = input_digests(requests, audio), input_digests(requests, {0: 15 - audio[0]})
    assert one.keys() == other.keys() == {0, 1}
    assert all(one[call] != other[call] for call in one)


@pytest.mark.parametrize(
    ("audio", "heard", "what"),
    [
        ([SPAN], 6, "nothing says what audio token 7 stands for"),
        ([SPAN], 4, "has 5 rows of 50 ms for 4 audio tokens"),
        ([{**SPAN, "end_s": 1.5}], 5, "ends after 1.000 s, before 1.5 s"),
        ([{**SPAN, "channel": 2}], 5, "has 2 channels, none of number 2"),
        ([{**SPAN, "end_s": 0.4}, {**SPAN, "token": 4}], 7, "two spans stand for the same audio tokens"),
        ([{**SPAN, "token": 1}], 5, "must be the index of an audio token"),
        ([{**SPAN, "end_s": 0.25}], 5, "end_s must be after start_s"),
        ([{**SPAN, "path": "none.wav"}], 5, "does not exist"),
        ([{**SPAN, "path": "../up.wav"}], 5, "lies outside"),
        ([{**SPAN, "rate": 1}], 5, "is not a known field"),
    ],
)
def test_spans_that_do_not_fit(tmp_path: Path, audio: list[Any], heard: int, what: str) -> None:
    path = write(tmp_path, audio=audio, heard=heard)
    with pytest.raises(RecordingError, match=what) as refused:
        heard_audio(list(read_recording(path)), source=path.name)
    assert refused.value.code in {"recording-media", "file-missing", "path-outside-corpus"}
