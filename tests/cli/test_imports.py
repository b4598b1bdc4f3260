"""`import trace` and `import states`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from safetensors.numpy import save_file
from typer.testing import CliRunner

from inkplex_data.cli.app import app, main
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import RecordingError

CHAT = [{"role": "user", "content": "My bill?"}, {"role": "assistant", "content": "Eighty pounds."}]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_dialogues_become_recordings(real_data: Path, tmp_path: Path) -> None:
    result = run("import", "trace", real_data / "traces" / "abcd_sample.json", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "3 recordings from abcd" in result.output and "constructed times" in result.output
    assert all(validate_path(path) == [] for path in (tmp_path / "out").iterdir())


def test_options_reach_the_import(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([CHAT]))
    options = ["--tokenizer", "bytes", "--schedule", "prefill_s=3", "--schedule", "user_pause_s=1"]
    result = run("import", "trace", tmp_path / "chat.json", "-o", tmp_path, *options, "--format", "messages")
    assert result.exit_code == 0, result.output
    header = read_recording(tmp_path / "chat-0000.recording.jsonl").header
    assert header.tokenizer == "inkling-bytes"
    assert header.schedule is not None
    assert (header.schedule["prefill_s"], header.schedule["user_pause_s"]) == (3, 1)


def test_a_bad_dialogue_gives_exit_code_3_and_all_bad_ones_1(tmp_path: Path) -> None:
    bad = [{"role": "user", "content": 7}]
    for dialogues, code in (([CHAT, bad], 3), ([bad], 1)):
        (tmp_path / "chat.json").write_text(json.dumps(dialogues))
        result = run(
            "import", "trace", tmp_path / "chat.json", "-o", tmp_path / "out", "--tokenizer", "bytes"
        )
        assert result.exit_code == code
        assert "[trace-message]" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "tool_latency=1"], "did you mean 'tool_latency_s'"),
        (["--schedule", "prefill_s"], "takes KEY=VALUE"),
        (["--schedule", "prefill_s=soon"], "takes a number"),
        (["--tokenizer", "no/such/folder"], "there is no tokenizer"),
        (["--format", "xml"], "there is no trace format 'xml'"),
        (["--times", "middle"], "--times takes start or end"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_code_2(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([CHAT]))
    with pytest.raises(SystemExit) as ended:
        main(["import", "trace", str(tmp_path / "chat.json"), "-o", str(tmp_path / "out"), *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_states_join_a_recording(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([CHAT]))
    run("import", "trace", tmp_path / "chat.json", "-o", tmp_path, "--tokenizer", "bytes")
    recording = tmp_path / "chat-0000.recording.jsonl"
    (request,) = read_recording(recording)
    (tmp_path / "engine").mkdir()
    rows = np.random.default_rng(0).standard_normal((len(request), 3, 2)).astype(np.float32)
    save_file({"h": rows}, tmp_path / "engine" / "call0.safetensors")
    refused = run("import", "states", recording, tmp_path / "engine", "-o", tmp_path / "out")
    assert refused.exit_code == 1 and isinstance(refused.exception, RecordingError)
    leave = "--accept-unidentified-states"
    result = run("import", "states", recording, tmp_path / "engine", "-o", tmp_path / "out", leave)
    assert result.exit_code == 0, result.output
    assert f"states of {len(request)} tokens in 1 requests, width 2, unidentified" in result.output
    (stated,) = read_recording(tmp_path / "out" / recording.name)
    assert stated.states_path is not None
