"""Plain text: known by its ending once no other format fits, with speakers where lines name them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.transcripts import read_segments, read_transcript
from inkplex_data.errors import CallRefused


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_with_and_without_names(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "Agent: Good morning,\nhow can I help?\n\nMs. O'Hara:  My bill\tis wrong.\r\n>> Agent: Oh.\n",
    )
    assert [(part.speaker, part.text, part.start_s, part.end_s) for part in read_segments(path)] == [
        ("Agent", "Good morning,", 0.0, math.inf),
        ("Agent", "how can I help?", 0.0, math.inf),
        ("Ms. O'Hara", "My bill is wrong.", 0.0, math.inf),
        ("Agent", "Oh.", 0.0, math.inf),
    ]
    with pytest.raises(CallRefused, match="4 lines of plain text") as refused:
        read_transcript(path)
    assert refused.value.code == "words-no-word-times" and "align" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("words of a call", "a.log", "words-unknown-format"),
        ('{"cut": ', "a.txt", "words-unknown-format"),
        ("\0\1binary", "a.txt", "words-unknown-format"),
        ("12 34\n--\n", "a.txt", "words-unknown-format"),
    ],
)
def test_what_is_no_plain_text(tmp_path: Path, text: str, name: str, code: str) -> None:
    with pytest.raises(CallRefused) as refused:
        read_transcript(write(tmp_path, text, name))
    assert refused.value.code == code


def test_other_formats_keep_their_files(tmp_path: Path) -> None:
    path = write(tmp_path, "1\n00:00:01,000 --> 00:00:02,500\nHello: there\n")
    assert [(part.start_s, part.end_s) for part in read_segments(path)] == [(1.0, 2.5)]
    ctm = write(tmp_path, "call A 0.10 0.20 hello\ncall A 0.40 0.20 there\n", "b.txt")
    assert [word.text for word in read_transcript(ctm).words] == ["hello", "there"]


def test_a_text_beside_audio_is_its_transcript(tmp_path: Path) -> None:
    write(tmp_path, "hello there")
    (tmp_path / "a.wav").write_bytes(b"")
    (entry,) = read_corpus(tmp_path).entries
    assert entry.words == tmp_path / "a.txt"
    write(tmp_path, '{"alignments": []}', "a.json")
    (entry,) = read_corpus(tmp_path).entries
    assert entry.words == tmp_path / "a.json"
