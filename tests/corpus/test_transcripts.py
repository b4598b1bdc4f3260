"""Transcript formats: found by content, read without loss, refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.models import AlignmentFile
from inkplex_data.corpus.transcripts import load_words, read_transcript, word_suffixes
from inkplex_data.corpus.transcripts.moshi import moshi_document
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

MOSHI = {"alignments": [["yes", [2, 2.5], "SPEAKER_MAIN"]]}


def written(folder: Path, document: Any, name: str = "call.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"alignments": []}, "moshi"),
        ({"word_segments": [{"word": "a", "start": 0, "end": 1}]}, "whisperx"),
        ({"text": "", "segments": [], "language": "en"}, "openai"),
    ],
)
def test_a_file_that_says_nothing_has_a_format_too(tmp_path: Path, document: Any, name: str) -> None:
    assert read_transcript(written(tmp_path, document)).format == name


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"text": "hello", "segments": [{"start": 0, "end": 1, "text": "hello"}]}', "words-no-word-times"),
        (b'{"alignments": 5}', "words-unreadable"),
        (b'{"alignments": [], "text_conditions": 3}', "words-unreadable"),
        (b'{"alignments": [[', "words-unreadable"),
        (b"", "words-unreadable"),
        (b'{"alignments": [], "alignments": []}', "words-unreadable"),
        (b'{"type": "Results", "a": 1, "a": 2}\n{"type": "Results"}\n', "words-unreadable"),
        (b"[" * 100_000, "words-unreadable"),
        (b'{"hello": 1}', "words-unknown-format"),
        (b"17", "words-unknown-format"),
        (b'{"word_segments": 5}', "words-unreadable"),
        (b'{"words": [], "text": "x", "segments": 4}', "words-unreadable"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "call.json"
    path.write_bytes(data)
    with pytest.raises(CallRefused) as caught:
        read_transcript(path)
    assert caught.value.code == code
    assert str(path) in str(caught.value)


def test_a_missing_or_endless_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallRefused, match="No such file"):
        read_transcript(tmp_path / "none.json")


@pytest.mark.parametrize(
    "document",
    [
        {
            "segments": [
                5,
                {"words": 3},
                {"text": "lost"},
                {"words": [7, {"text": "ok", "start": 0, "end": 1}]},
            ]
        },
        {
            "segments": [
                5,
                {"words": 3},
                {"text": "lost"},
                {"words": [7, {"word": "ok", "start": 0, "end": 1}]},
            ]
        },
    ],
)
def test_wrong_segments_are_counted(tmp_path: Path, document: Any) -> None:
    log = ProblemLog("call")
    words, _ = load_words(written(tmp_path, document), duration_us=5_000_000, log=log)
    assert [word.text for word in words] == ["ok"]
    assert log.count("word-malformed") == 4


def test_nan_and_null_times_reach_the_repair(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    path.write_text('{"alignments": [["a", [NaN, 1], "S"], ["b", null, "S"], ["c", [1, 1.5], "S"]]}')
    log = ProblemLog("call")
    words, _ = load_words(path, duration_us=5_000_000, log=log)
    assert [word.text for word in words] == ["a", "c"]
    assert [problem.code for problem in log] == ["word-untimed", "word-start-missing"]


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    path.write_bytes(
        '{"alignments": [["café", [0, 1], "S"], ["\ufffd", [1, 2], "S"]]}'.encode(
            "latin-1", "replace"
        ).replace(b"?", "\ufffd".encode())
    )
    log = ProblemLog("call")
    words, _ = load_words(path, duration_us=5_000_000, log=log)
    assert [word.text for word in words] == ["caf\ufffd", "\ufffd"]
    (problem,) = log
    assert problem.code == "words-not-utf8"
    assert "1 undecodable" in problem.message
    with pytest.raises(CallRefused, match="undecodable"):
        load_words(path, duration_us=5_000_000, log=ProblemLog("call", strict=True))


def test_json_is_the_first_suffix_looked_for() -> None:
    assert word_suffixes()[0] == ".json"


TIMED = st.integers(0, 10**9).flatmap(
    lambda start: st.builds(
        TimedWord,
        text=st.text(min_size=1, max_size=5).map(str.strip).filter(lambda t: t.strip("\0") == t and t),
        start_us=st.just(start),
        end_us=st.integers(start + 1, 10**9 + 1),
        speaker=st.sampled_from(["SPEAKER_MAIN", "SPEAKER_01"]),
        confidence=st.one_of(st.none(), st.floats(0, 1)),
        method=st.just("aligned"),
    )
)


@given(st.lists(TIMED, max_size=6))
def test_moshi_json_round_trip(tmp_path_factory: pytest.TempPathFactory, words: list[TimedWord]) -> None:
    ordered = sorted(words, key=lambda word: word.start_us)
    document = moshi_document(ordered, text_conditions={"a": 1}, method="aligned")
    AlignmentFile.model_validate(document)
    path = tmp_path_factory.mktemp("moshi") / "call.json"
    path.write_text(json.dumps(document, allow_nan=False))
    back, transcript = load_words(path, duration_us=2 * 10**9, log=ProblemLog("call", strict=True))
    assert back == ordered
    assert transcript.text_conditions == {"a": 1}


def test_moshi_json_of_numpy_values_is_plain_json() -> None:
    word = TimedWord("a", int(np.int64(5)), 10, "SPEAKER_MAIN", np.float32(0.5), "x")  # type: ignore[arg-type]
    assert json.loads(json.dumps(moshi_document([word])))["confidence"] == [0.5]


def test_the_real_calls_words(real_data: Path) -> None:
    path = real_data / "calls" / "Auto_Repairs_40_UTC_agent.json"
    log = ProblemLog("call")
    words, transcript = load_words(path, duration_us=245_382_000, log=log)
    given_words = json.loads(path.read_bytes())["alignments"]
    assert len(words) + log.count("word-no-duration") == len(given_words) == 378
    assert transcript.speakers == ["SPEAKER_MAIN"]
    assert [problem.code for problem in log] == ["word-no-duration"] * log.count("word-no-duration")
