"""The Moshi fine-tuning layout: `{"alignments": [[word, [start_s, end_s], speaker], …], "text_conditions": …}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inkplex_data.clock import us_to_seconds
from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Transcript,
    TranscriptFormat,
    as_confidence,
    malformed,
    unreadable,
)
from inkplex_data.corpus.word_repair import SPEAKER_UNKNOWN, RawWord, TimedWord

NAME = "moshi"


def _detect(content: Content) -> bool:
    return isinstance(content.json, dict) and "alignments" in content.json


def _parse(content: Content) -> Transcript:
    document = content.json
    alignments = document["alignments"]
    if not isinstance(alignments, list):
        raise unreadable(content, f"`alignments` is {type(alignments).__name__}, not a list")
    conditions = document.get("text_conditions")
    if conditions is not None and not isinstance(conditions, dict):
        raise unreadable(content, f"`text_conditions` is {type(conditions).__name__}, not an object")
    confidence = document.get("confidence")
    if not isinstance(confidence, list) or len(confidence) != len(alignments):
        confidence = [None] * len(alignments)
    words = [
        _word(entry, f"alignments[{index}]", as_confidence(confidence[index]))
        for index, entry in enumerate(alignments)
    ]
    method, agent, channels = (document.get(name) for name in ("method", "agent", "channels"))
    return Transcript(
        words,
        NAME,
        content.path,
        method=method if isinstance(method, str) else "",
        text_conditions=conditions,
        channels={
            int(index): label
            for index, label in (channels.items() if isinstance(channels, dict) else ())
            if index.isdecimal() and len(index) < 6 and isinstance(label, str)
        },
        agent=agent if isinstance(agent, str) else None,
    )


def _word(entry: object, item: str, confidence: float | None) -> RawWord:
    if not isinstance(entry, list) or len(entry) != 3:
        return malformed(entry, item, "is not [word, [start, end], speaker]")
    text, times, speaker = entry
    if not isinstance(text, str) or not isinstance(speaker, str):
        return malformed(entry, item, "has a word or speaker that is not text")
    if times is None:
        times = [None, None]
    if not isinstance(times, list) or len(times) != 2:
        return malformed(entry, item, "has no [start, end]")
    return RawWord(text, times[0], times[1], speaker or SPEAKER_UNKNOWN, confidence, item)


def moshi_document(
    words: Sequence[TimedWord],
    *,
    text_conditions: dict[str, Any] | None = None,
    method: str | None = None,
    agent: str | None = None,
    channels: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """The JSON object that reads back as `words`, and that the layout's own trainers read too.

    Confidences go into a parallel list, since those trainers unpack triples. `agent`, `channels`: what the labels of
    `words` stand for, as `Transcript` has it.
    """
    document: dict[str, Any] = {
        "alignments": [
            [word.text, [us_to_seconds(word.start_us), us_to_seconds(word.end_us)], word.speaker]
            for word in words
        ]
    }
    if any(word.confidence is not None for word in words):
        document["confidence"] = [
            None if word.confidence is None else float(word.confidence) for word in words
        ]
    if method is not None:
        document["method"] = method
    if text_conditions is not None:
        document["text_conditions"] = text_conditions
    if agent is not None:
        document["agent"] = agent
    if channels:
        document["channels"] = {str(index): label for index, label in sorted(channels.items())}
    return document


FORMAT = TranscriptFormat(NAME, "Moshi fine-tuning JSON", (".json",), _detect, _parse, priority=10)
