"""Deepgram: `{"results": {"channels": [{"alternatives": [{"words": […]}]}]}}`, and the messages of its live
service, `{"type": "Results", "channel_index": [0, 2], "channel": {"alternatives": […]}, "is_final": true}`,
as a list or one a line.

`punctuated_word` is the word as it would be written. With `multichannel` each channel is transcribed on its
own; with `diarize` words have a `speaker`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    as_confidence,
    entries,
    inside,
    is_finite,
    malformed,
    untimed,
)
from inkplex_data.corpus.transcripts.voices import Voice, label_voices
from inkplex_data.corpus.word_repair import RawWord

NAME = "deepgram"


def _is_message(part: dict[str, Any]) -> bool:
    return part.get("type") == "Results" and isinstance(part.get("channel"), dict)


def _detect(content: Content) -> bool:
    whole = isinstance(inside(content.json, "results", "channels"), list)
    return whole or any(_is_message(part) for part in content.objects)


def _channels(content: Content) -> Iterator[tuple[str, int, object]]:
    """Where, channel number and what holds `alternatives`."""
    channels = inside(content.json, "results", "channels")
    if isinstance(channels, list):
        for number, channel in enumerate(channels):
            yield f"results.channels[{number}]", number, channel
        return
    for number, message in enumerate(content.objects):
        # Interim results are heard again, and better, in the final one.
        if _is_message(message) and message.get("is_final", True):
            index = inside(message, "channel_index", 0)
            yield f"[{number}].channel", index if isinstance(index, int) else 0, message["channel"]


def _parse(content: Content) -> Transcript:
    words: list[RawWord] = []
    voices: list[Voice] = []
    text = ""
    for where, number, channel in _channels(content):
        best = inside(channel, "alternatives", 0)
        text += str(inside(best, "transcript") or "")
        for index, word in enumerate(entries(best, "words")):
            words.append(_word(word, f"{where}.alternatives[0].words[{index}]"))
            speaker = inside(word, "speaker")
            voices.append(Voice(number, None if speaker is None else str(speaker)))
    if not words and text.strip():
        raise untimed(content, "has text, but no word of it has a time")
    labelled, channels = label_voices(words, voices, declared=_declared(content))
    return Transcript(labelled, NAME, content.path, channels=channels)


def _declared(content: Content) -> set[int]:
    """Every channel that was transcribed, also those in which nothing was heard."""
    channels = inside(content.json, "results", "channels")
    if isinstance(channels, list):
        return set(range(len(channels)))
    indices = (message.get("channel_index") for message in content.objects)
    # [channel, number of channels]
    counts = [index[1] for index in indices if isinstance(index, list) and len(index) == 2]
    return {0, 1} if 2 in counts else set()


def _word(word: object, item: str) -> RawWord:
    if not isinstance(word, dict):
        return malformed(word, item, "is not an object")
    text = word.get("punctuated_word") or word.get("word")
    if not isinstance(text, str):
        return malformed(word, item, "has no text in 'word'")
    return RawWord(text, word.get("start"), word.get("end"), "", as_confidence(word.get("confidence")), item)


def _segments(content: Content) -> list[Segment]:
    found = []
    for number, part in enumerate(entries(content.json, "results", "utterances")):
        text, start, end = (inside(part, key) for key in ("transcript", "start", "end"))
        if isinstance(text, str) and text.strip() and is_finite(start) and is_finite(end):
            speaker = part.get("speaker")
            voice = Voice(part.get("channel"), None if speaker is None else str(speaker))
            found.append(
                Segment(text, float(start), float(end), voice.label, f"results.utterances[{number}]")
            )
    return found


FORMAT = TranscriptFormat(
    NAME, "Deepgram JSON", (".json", ".jsonl"), _detect, _parse, priority=5, segments=_segments
)
