"""What a call says: which words it has where several places could give them, and that each file is parsed once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.corpus import call_text
from inkplex_data.corpus.call_text import CallText, speaker_rule
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import swapped
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


def entry_of(folder: Path, beside: str | None, text: str = "", *, sidecar: bool = True) -> CallEntry:
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
    return entry


def given(
    folder: Path, beside: str | None, text: str = "", *, sidecar: bool = True
) -> tuple[list[tuple[str, str]], object]:
    return said(CallText.of(entry_of(folder, beside, text, sidecar=sidecar), agent="Ann"))


def said(text: CallText) -> tuple[list[tuple[str, str]], object]:
    words = text.words(duration_us=1_000_000, log=ProblemLog("call"))
    return [(word.text, word.speaker) for word in words], text.conditions


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


def test_the_agents_label_goes_with_its_channel(tmp_path: Path) -> None:
    entry = replace(entry_of(tmp_path, None), channels=ChannelSpec(agent=1, caller=0))
    assert speaker_rule(entry) == SpeakerRule(agent_channel=1)
    # The labels of the transcript know nothing of the exchange.
    assert speaker_rule(swapped(entry)) == SpeakerRule(agent_channel=1, swapped=True)
    named = SpeakerRule(agent="spk_1", agent_channel=1, main="AGENT")
    assert speaker_rule(entry, agent="spk_1", main="AGENT") == named


def test_a_call_told_from_the_other_side(tmp_path: Path) -> None:
    text = CallText.of(swapped(entry_of(tmp_path, None)), agent="Ann")
    assert said(text)[0] == [("hello", "SPEAKER_CALLER"), ("hi", "SPEAKER_MAIN")]
    assert text.unswapped_sidecar is not None and text.unswapped_sidecar.words is not None
    assert text.sidecar is not None and text.sidecar.words is None, "the words were the former agent's"
    other = CallText.of(swapped(entry_of(tmp_path, "call.json", json.dumps(MOSHI))))
    assert said(other) == ([("good", "SPEAKER_CALLER")], None), "so were the text conditions"


def test_each_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def spy(name: str) -> None:
        real = getattr(call_text, name)

        def counted(path: Path) -> object:
            read.append(path.name)
            return real(path)

        monkeypatch.setattr(call_text, name, counted)

    spy("read_transcript")
    spy("read_sidecar")
    entry = entry_of(tmp_path, "call.json", json.dumps(MOSHI))
    text = CallText.of(entry)
    assert text.has_words and text.sidecar is not None
    moved = text.moved_to(replace(entry, channels=ChannelSpec(1, 0)))
    assert moved.rule.agent_channel == 1
    assert said(moved) == said(text) and moved.has_words and moved.sidecar == text.sidecar
    assert sorted(read) == ["call.json", "call.sidecar.json"]
    (tmp_path / "made.json").write_text(json.dumps({"alignments": [["new", [0.1, 0.4], "ME"]]}))
    made = CallText.of(entry, agent="Ann", main="ME").with_made_words(tmp_path / "made.json")
    assert said(made)[0] == [("new", "ME")] and made.rule == SpeakerRule(main="ME")


def test_a_transcript_that_cannot_be_read_is_refused_at_every_turn(tmp_path: Path) -> None:
    text = CallText.of(entry_of(tmp_path, "call.json", "not JSON"))
    assert not text.lacks_word_times and text.has_words, "making other words would hide it"
    for _ in range(2):
        with pytest.raises(CallRefused, match="is not JSON"):
            said(text)
