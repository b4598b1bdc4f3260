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


def test_ctm_channels_and_confidences(tmp_path: Path) -> None:
    path = written(tmp_path, ";; a comment\nsw2001 B 1.30 0.20 yes 0.5\nsw2001 A 0.10 0.08 hello\n")
    transcript = read_transcript(path)
    assert [(w.text, w.start, w.end, w.speaker, w.confidence) for w in transcript.words] == [
        ("yes", 1.3, 1.5, "channel B", 0.5),
        ("hello", 0.1, 0.18, "channel A", None),
    ]
    assert [w.speaker for w in map_speakers(transcript).words] == ["SPEAKER_CALLER", "SPEAKER_MAIN"]


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


SHORT = '''File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
3
"IntervalTier"
"Ann - words"
0
2
3
0
0.5
"say ""so"""
0.5
1
"sp"
1
1.5
"yes"
"IntervalTier"
"Bob - words"
0
2
1
1.25
2
"no"
"TextTier"
"events"
0
2
1
0.7
"click"
'''


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_textgrid_speakers_quotes_and_encodings(tmp_path: Path, encoding: str) -> None:
    transcript = read_transcript(written(tmp_path, SHORT.replace('say ""so""', '""so""'), encoding=encoding))
    assert [(w.text, w.start, w.end, w.speaker) for w in transcript.words] == [
        ('"so"', 0.0, 0.5, "Ann"),
        ("yes", 1.0, 1.5, "Ann"),
        ("no", 1.25, 2.0, "Bob"),
    ]


def test_textgrid_that_breaks_off(tmp_path: Path) -> None:
    for cut in range(60, len(SHORT), 17):
        path = written(tmp_path, SHORT[:cut])
        try:
            assert len(read_transcript(path).words) <= 4
        except CallRefused as refused:
            assert refused.code == "words-unreadable"


def test_srt(tmp_path: Path) -> None:
    text = (
        "1\n00:00:01,500 --> 00:00:02,000\n<i>Agent:</i> Good\nday\n\n2\n00:01:00,000 --> 01:00:00,25\n"
        "{\\an8}I say: no &amp; yes\n\n3\n00:00:05,000 --> 00:00:06,000\n\n"
    )
    path = written(tmp_path, text, "call.srt")
    with pytest.raises(CallRefused, match="2 captions") as refused:
        read_transcript(path)
    assert refused.value.code == "words-no-word-times" and "align" in str(refused.value)
    found = [(s.text, s.start_s, s.end_s, s.speaker) for s in read_segments(path)]
    assert found == [("Good day", 1.5, 2.0, "Agent"), ("no & yes", 60.0, 3600.25, "I say")]


def test_vtt(tmp_path: Path) -> None:
    text = (
        "WEBVTT - a title\n\nNOTE nothing\n\nSTYLE\n::cue {}\n\nintro\n00:01.000 --> 00:02.500 align:start\n"
        "<v Mary Ann>Hello <00:00:01.500><c>there</c></v>\n"
    )
    (segment,) = read_segments(written(tmp_path, text))
    assert (segment.text, segment.start_s, segment.end_s, segment.speaker) == (
        "Hello there",
        1.0,
        2.5,
        "Mary Ann",
    )


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


def test_a_text_grid_of_endless_size_is_refused(tmp_path: Path) -> None:
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n0 1 <exists> 1e999'
    tier = ' 1 "IntervalTier" "words" 0 1 1 0 1e999 "hi"'
    for text in (head, head.replace(" 1e999", tier)):
        with pytest.raises(CallRefused, match="breaks off"):
            read_segments(written(tmp_path, text, "call.TextGrid"))


def test_hours_beyond_all_counting_are_no_time(tmp_path: Path) -> None:
    text = f"1\n{'9' * 5000}:00:00,000 --> 00:00:01,000\nhello\n"
    with pytest.raises(CallRefused, match="no known transcript format"):
        read_transcript(written(tmp_path, text, "call.srt"))


def test_marks_that_never_close_are_text(tmp_path: Path) -> None:
    # A pattern that tries every pair of such marks would take hours here.
    text = "1\n00:00:00,000 --> 00:00:01,000\n" + "<v " * 200_000 + "{\\ " * 200_000 + "\n"
    (found,) = read_segments(written(tmp_path, text, "call.srt"))
    assert found.speaker == ""
