"""What the Whisper family's JSON files share: segments that hold words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    entries,
    malformed,
    objects,
    unreadable,
    word_from_object,
)
from inkplex_data.corpus.word_repair import RawWord


def nested_words(document: object) -> Iterator[dict[str, Any]]:
    """Word objects in `segments[…].words[…]`, for detection."""
    for segment in entries(document, "segments"):
        yield from objects(segment, "words")


def listed_words(content: Content, key: str, words: object, *, confidence: str) -> list[RawWord]:
    """The words of a list of objects with `word`, named by its key. Raises CallRefused (words-unreadable)."""
    if not isinstance(words, list):
        raise unreadable(content, f"`{key}` is {type(words).__name__}, not a list")
    return [
        word_from_object(word, f"{key}[{index}]", text="word", confidence=confidence)
        for index, word in enumerate(words)
    ]


def words_of_segments(segments: list[Any], *, text: str, confidence: str) -> list[RawWord]:
    """Every word of every segment; a segment that is none, or whose words are none, counts as a malformed word."""
    found: list[RawWord] = []
    for number, segment in enumerate(segments):
        item = f"segments[{number}]"
        words = segment.get("words", []) if isinstance(segment, dict) else None
        if not isinstance(words, list):
            found.append(malformed(segment, item, "is not a segment with words"))
            continue
        if not words and isinstance(segment.get("text"), str) and segment["text"].strip():
            found.append(malformed(segment["text"], item, "has text but no timed words"))
        found.extend(
            word_from_object(
                word,
                f"{item}.words[{index}]",
                text=text,
                confidence=confidence,
                speaker=segment.get("speaker"),
            )
            for index, word in enumerate(words)
        )
    return found
