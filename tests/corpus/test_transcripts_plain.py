"""Plain text: known by its ending once no other format fits, with speakers where lines name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.transcripts import read_transcript
from inkplex_data.errors import CallRefused


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


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


def test_a_text_beside_audio_is_its_transcript(tmp_path: Path) -> None:
    write(tmp_path, "hello there")
    (tmp_path / "a.wav").write_bytes(b"")
    (entry,) = read_corpus(tmp_path).entries
    assert entry.words == tmp_path / "a.txt"
    write(tmp_path, '{"alignments": []}', "a.json")
    (entry,) = read_corpus(tmp_path).entries
    assert entry.words == tmp_path / "a.json"
