"""Formats that are lines of text: CTM, TextGrid, captions, RTTM."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.corpus.transcripts import map_speakers, read_segments, read_transcript
from inkplex_data.errors import CallRefused


def written(folder: Path, text: str, name: str = "call", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


def test_ctm_of_several_recordings(tmp_path: Path) -> None:
    text = "a.wav 1 0 1 one\nb 1 0 1 two\n"
    assert [w.text for w in read_transcript(written(tmp_path, text, "a.ctm")).words] == ["one"]
    with pytest.raises(CallRefused, match=r"holds 2 audio files, none with its name: a\.wav, b"):
        read_transcript(written(tmp_path, text, "c.ctm"))


@pytest.mark.parametrize(
    "text", ["a 1 0 1\n", "a 1 zero 1 x\n", "", "a 1 0 -1 x\n", "some prose of five words here\n"]
)
def test_what_is_no_ctm(tmp_path: Path, text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        read_transcript(written(tmp_path, text))
    assert refused.value.code == "words-unknown-format"


def test_rttm_lines_that_are_none(tmp_path: Path) -> None:
    good = "SPEAKER a 1 0.5 1.25 <NA> <NA> Ann <NA> <NA>\n"
    assert read_segments(written(tmp_path, good))[0].end_s == 1.75
    for bad, message in (
        ("SPEAKER a 1 0.5\n", "4 of 8 fields"),
        (good.replace("1.25", "x"), "no start and duration"),
    ):
        with pytest.raises(CallRefused, match=message):
            read_segments(written(tmp_path, good + bad))


def test_a_second_channel_alone_is_not_the_agent(tmp_path: Path) -> None:
    transcript = read_transcript(written(tmp_path, "call B 0.0 0.5 hello\n", "call.ctm"))
    assert [word.speaker for word in map_speakers(transcript).words] == ["SPEAKER_CALLER"]


def test_hours_beyond_all_counting_are_no_time(tmp_path: Path) -> None:
    text = f"1\n{'9' * 5000}:00:00,000 --> 00:00:01,000\nhello\n"
    with pytest.raises(CallRefused, match="no known transcript format"):
        read_transcript(written(tmp_path, text, "call.srt"))
