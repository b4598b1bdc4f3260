"""Which words a call has where several places could give them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.corpus.call_words import given_words
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.transcripts import SpeakerRule
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

SIDECAR = {
    "schema": "inkplex/sidecar@1",
    "identity": {"clip_id": "call"},
    "words": {
        "items": [
            {"text": "hello", "start_s": 0.1, "end_s": 0.4, "speaker": "Ann"},
            {"text": "hi", "start_s": 0.5, "end_s": 0.6, "speaker": "Bob"},
        ]
    },
}
MOSHI = {"alignments": [["good", [0.1, 0.4], "SPEAKER_MAIN"]], "text_conditions": {"mood": "calm"}}


def given(
    folder: Path, beside: str | None, text: str = "", *, sidecar: bool = True
) -> tuple[list[tuple[str, str]], object]:
    soundfile.write(folder / "call.wav", np.zeros((24_000, 2), np.float32), 24_000)
    line = {"id": "call", "path": "call.wav"}
    if sidecar:
        (folder / "call.sidecar.json").write_text(json.dumps(SIDECAR))
        line["sidecar"] = "call.sidecar.json"
    if beside is not None:
        (folder / beside).write_text(text)
        line["words"] = beside
    (folder / "manifest.jsonl").write_text(json.dumps(line))
    (entry,) = read_corpus(folder / "manifest.jsonl").entries
    known = read_sidecar(entry.sidecar) if entry.sidecar is not None else None
    rule = SpeakerRule(agent="Ann")
    words, conditions = given_words(entry, known, duration_us=1_000_000, log=ProblemLog("call"), rule=rule)
    return [(word.text, word.speaker) for word in words], conditions


def test_the_words_of_a_sidecar_are_labelled_by_the_rule(tmp_path: Path) -> None:
    assert given(tmp_path, None) == ([("hello", "SPEAKER_MAIN"), ("hi", "SPEAKER_CALLER")], None)
    (tmp_path / "plain").mkdir()
    assert given(tmp_path / "plain", None, sidecar=False) == ([], None)


def test_a_transcript_comes_before_a_sidecar(tmp_path: Path) -> None:
    found = given(tmp_path, "call.json", json.dumps(MOSHI))
    assert found == ([("good", "SPEAKER_MAIN")], {"mood": "calm"})


def test_captions_do_not_displace_the_words_of_a_sidecar(tmp_path: Path) -> None:
    captions = "1\n00:00:00,000 --> 00:00:01,000\nhello\n"
    assert given(tmp_path, "call.srt", captions)[0] == [("hello", "SPEAKER_MAIN"), ("hi", "SPEAKER_CALLER")]
    (tmp_path / "plain").mkdir()
    with pytest.raises(CallRefused, match="no word of them has a time"):
        given(tmp_path / "plain", "call.srt", captions, sidecar=False)
