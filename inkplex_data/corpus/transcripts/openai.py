"""OpenAI's verbose JSON, `{"text", "words": [{"word", "start", "end"}], "segments": […]}`, and the JSON of
openai-whisper and faster-whisper, whose words lie in the segments with a `probability`.

A file with segments only has no word times; it says so instead of giving no words.
"""

from __future__ import annotations

from inkplex_data.corpus.transcripts.segments import listed_words, nested_words, words_of_segments
from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    entries,
    is_finite,
    label_speakers,
    objects,
    unreadable,
)
from inkplex_data.problems import refusal

NAME = "openai"


def _detect(content: Content) -> bool:
    document = content.json
    if not isinstance(document, dict):
        return False
    if any("word" in word for word in (*objects(document, "words"), *nested_words(document))):
        return True
    return isinstance(document.get("text"), str) and ("segments" in document or "words" in document)


def _parse(content: Content) -> Transcript:
    document = content.json
    words = listed_words(content, "words", document.get("words") or [], confidence="probability")
    if not words:
        segments = document.get("segments") or []
        if not isinstance(segments, list):
            raise unreadable(content, f"`segments` is {type(segments).__name__}, not a list")
        timed = any(True for _ in nested_words(document))
        words = words_of_segments(segments, text="word", confidence="probability") if timed else []
    if not words and str(document.get("text", "")).strip():
        raise refusal(
            "words-no-word-times",
            "has text and segments, but no timed words",
            content.path,
            next_step="Time its words with `inkplex-data align`, or transcribe with word timestamps on.",
        )
    return Transcript(label_speakers(words), NAME, content.path)


def _segments(content: Content) -> list[Segment]:
    return [
        Segment(part["text"].strip(), float(part["start"]), float(part["end"]), "", f"segments[{number}]")
        for number, part in enumerate(entries(content.json, "segments"))
        if isinstance(part, dict)
        and isinstance(part.get("text"), str)
        and part["text"].strip()
        and all(is_finite(part.get(edge)) for edge in ("start", "end"))
    ]


FORMAT = TranscriptFormat(
    NAME, "OpenAI verbose JSON", (".json",), _detect, _parse, priority=-10, segments=_segments
)
