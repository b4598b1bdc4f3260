"""`interleave`, `encode` and `capture` on their own give what a build gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import Result
from typer.testing import CliRunner

from inkplex_data.cli.app import app, main
from inkplex_data.config.recipe import CodecConfig
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.traces.importer import import_traces
from inkplex_data.pipeline import tools
from inkplex_data.speech.interleave import Word, interleave
from tests.pipeline.conftest import RATE_HZ, voice, write_call


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_interleave_prints_the_text_stream(tmp_path: Path) -> None:
    write_call(tmp_path, "one", 1)
    words = json.loads((tmp_path / "one.json").read_text())["alignments"]
    pieces = tools.tokenizer(None).encode_words([text for text, _, _ in words])
    expected = interleave(
        [
            Word(ids, round(start * 1e6), round(end * 1e6), label)
            for ids, (_, (start, end), label) in sorted(
                zip(pieces, words, strict=True), key=lambda w: w[1][1]
            )
        ],
        32,
    )
    result = run("interleave", tmp_path / "one.json", "--audio", tmp_path / "one.wav", "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.output)
    assert shown["ids"] == expected.ids.tolist() and shown["roles"] == expected.roles.tolist()
    assert shown["words_placed"] == 7
    lines = run("interleave", tmp_path / "one.json", "--frames", 32).output.splitlines()
    assert lines[0].split() == ["frame", "time_s", "id", "piece"]
    frames = [int(line.split()[0]) for line in lines[1:] if line.strip()[0].isdigit() and "words" not in line]
    assert frames == np.flatnonzero(expected.ids != 3).tolist()
    late = run("interleave", tmp_path / "one.json", "--frames", 32, "--set", "text.delay_s=0.16", "--json")
    assert json.loads(late.output)["ids"] != shown["ids"]


def test_interleave_needs_one_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_call(tmp_path, "one", 1)
    with pytest.raises(SystemExit) as ended:
        main(["interleave", str(tmp_path / "one.json")])
    assert ended.value.code == 2
    assert "either --frames or --audio" in capsys.readouterr().err


def test_encode_writes_the_codes_of_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_call(tmp_path, "one", 1, seconds=0.5)
    mimi = tools.codec(CodecConfig(id="untrained:0"), "cpu")
    stereo, _ = soundfile.read(tmp_path / "one.wav", dtype="float32")
    expected = np.concatenate([mimi.encode([stereo[:, side].copy()]) for side in range(2)], axis=1).T
    for name in ("codes.npy", "codes.npz"):
        result = run("encode", tmp_path / "one.wav", "-o", tmp_path / name, "--codec", "untrained:0")
        assert result.exit_code == 0, result.output
    loaded = np.load(tmp_path / "codes.npz", allow_pickle=False)
    np.testing.assert_array_equal(loaded["codes"], expected)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy", allow_pickle=False), expected)
    assert loaded["samples"] == 12_000 and json.loads(str(loaded["codec"]))["untrained"] is True
    soundfile.write(tmp_path / "mono.wav", voice(1, 0.5, 120), RATE_HZ, subtype="FLOAT")
    assert (
        run("encode", tmp_path / "mono.wav", "-o", tmp_path / "m.npy", "--codec", "untrained:0").exit_code
        == 0
    )
    assert np.load(tmp_path / "m.npy", allow_pickle=False).shape == (8, 7)
    with pytest.raises(SystemExit):
        main(["encode", str(tmp_path / "mono.wav"), "-o", str(tmp_path / "m.txt")])
    assert "takes a .npy or .npz" in capsys.readouterr().err


def test_capture_writes_states_and_the_recording_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([[{"role": "assistant", "content": "Hi"}]]))
    (one,) = import_traces(tmp_path / "chat.json", tmp_path / "in").written
    result = run("capture", one.path, "-o", tmp_path / "out", "--model", "small:0", "--chunk-tokens", 2)
    assert result.exit_code == 0, result.output
    assert f"states of {one.tokens} tokens in 1 requests" in result.output and "(untrained)" in result.output
    (request,) = read_recording(tmp_path / "out" / one.path.name)
    assert request.states_path is not None and request.states_path.stat().st_size > one.tokens * 6
