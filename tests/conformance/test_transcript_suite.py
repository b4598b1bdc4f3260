"""The suite for transcript formats finds the mistakes that it is there for: one wrong reader for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.transcripts import Content, Transcript, TranscriptFormat
from inkplex_data.corpus.transcripts.moshi import FORMAT
from inkplex_data.corpus.word_repair import RawWord
from tests.conformance.test_transcript_formats import TestMoshi as Moshi


def careless(content: Content) -> Transcript:
    entries = content.json["alignments"]
    words = [RawWord(text, start, end, who, None, "") for text, (start, end), who in entries]
    return Transcript(words, "moshi", content.path)


def silent(content: Content) -> Transcript:
    """Leaves out what is no word, and nobody hears of it."""
    found = FORMAT.parse(content)
    return replace(found, words=[word for word in found.words if word.fault is None])


def by_name(content: Content) -> bool:
    return content.path.suffix == ".json" and FORMAT.detect(content)


WRONG: list[tuple[dict[str, Any], Callable[[Moshi], None]]] = [
    ({"parse": careless}, Moshi.test_wrong_values_anywhere),
    ({"parse": silent}, Moshi.test_entries_that_are_no_words_cost_themselves_only),
    ({"detect": by_name}, Moshi.test_it_is_found_by_its_content),
    ({"segments": lambda content: content.json["segments"]}, Moshi.test_reading_twice_gives_the_same),
]


@pytest.mark.parametrize(("wrong", "test"), WRONG)
def test_a_wrong_reader_fails(
    wrong: dict[str, Any], test: Callable[[Moshi], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    form: TranscriptFormat = replace(FORMAT, **wrong)
    monkeypatch.setattr("tests.conformance.transcripts.formats", lambda: (form,))
    monkeypatch.setattr(
        "tests.conformance.transcripts.detect", lambda content: form if form.detect(content) else None
    )
    with pytest.raises((AssertionError, LookupError, TypeError, ValueError)):
        test(Moshi())


def test_a_format_that_takes_the_files_of_others_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = replace(FORMAT, detect=lambda content: True)
    monkeypatch.setattr("tests.conformance.transcripts.detect", lambda content: greedy)
    with pytest.raises(AssertionError):
        Moshi().test_it_takes_no_file_of_another_format()


def test_an_ending_that_is_no_ending_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    form = replace(FORMAT, suffixes=(".nobody-looks-for-this",))
    monkeypatch.setattr("tests.conformance.transcripts.formats", lambda: (form,))
    with pytest.raises(AssertionError):
        Moshi().test_it_lies_beside_its_audio(tmp_path)
