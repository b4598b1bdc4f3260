"""OpenAI's verbose JSON, `{"text", "words": [{"word", "start", "end"}], "segments": […]}`, and the JSON of
openai-whisper and faster-whisper, whose words lie in the segments with a `probability`.

A file with segments only has no word times; it says so instead of giving no words.
"""

from __future__ import annotations

from typing import Any

from inkplex_data.corpus.transcripts.segments import nested_words, words_of_segments
from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    is_finite,
    label_speakers,
    unreadable,
    word_from_object,
)
from inkplex_data.corpus.word_repair import RawWord
from inkplex_data.problems import refusal

NAME = "openai"


def _detect(content: Content) -> bool:
    document = content.json
    if not isinstance(document, dict):
        return False
    words = document.get("words")
    if isinstance(words, list) and any(isinstance(word, dict) and "word" in word for word in words):
        return True
    if any("word" in word for word in nested_words(document)):
        return True
    return isinstance(document.get("text"), str) and ("segments" in document or "words" in document)


def _parse(content: Content) -> Transcript:
    document = content.json
    words = _flat(content, document) or _nested(content, document)
    if not words and str(document.get("text", "")).strip():
        raise refusal(
            "words-no-word-times",
            "has text and segments, but no timed words",
            content.path,
            next_step="Time its words with `inkplex-data align`, or transcribe with word timestamps on.",
        )
    return Transcript(label_speakers(words), NAME, content.path)


def _flat(content: Content, document: dict[str, Any]) -> list[RawWord]:
    words = document.get("words") or []
    if not isinstance(words, list):
        raise unreadable(content, f"`words` is {type(words).__name__}, not a list")
    return [
        word_from_object(word, f"words[{index}]", text="word", confidence="probability")
        for index, word in enumerate(words)
    ]


def _nested(content: Content, document: dict[str, Any]) -> list[RawWord]:
    segments = document.get("segments") or []
    if not isinstance(segments, list):
        raise unreadable(content, f"`segments` is {type(segments).__name__}, not a list")
    if not any(True for _ in nested_words(document)):
        return []
    return words_of_segments(segments, text="word", confidence="probability")


def _segments(content: Content) -> list[Segment]:
    segments = content.json.get("segments")
    return [
        Segment(part["text"].strip(), float(part["start"]), float(part["end"]), "", f"segments[{number}]")
        for number, part in enumerate(segments if isinstance(segments, list) else ())
        if isinstance(part, dict)
        and isinstance(part.get("text"), str)
        and part["text"].strip()
        and all(is_finite(part.get(edge)) for edge in ("start", "end"))
    ]


FORMAT = TranscriptFormat(
    NAME, "OpenAI verbose JSON", (".json",), _detect, _parse, priority=-10, segments=_segments
)
