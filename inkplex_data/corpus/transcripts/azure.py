"""Azure Speech: batch transcription (`recognizedPhrases`), fast transcription (`phrases`), and the detailed results
of real-time recognition (`NBest`), one object, a list, or one a line.

Times are ticks of 100 ns (`offsetInTicks`, `Offset`), milliseconds, or ISO 8601 durations ("PT1.62S") where
a file has nothing else. Without word times switched on a phrase has one pair of times.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    as_confidence,
    inside,
    malformed,
    objects,
    span,
    untimed,
)
from inkplex_data.corpus.transcripts.voices import Voice, label_voices
from inkplex_data.corpus.word_repair import RawWord

TICKS_PER_S: Final = 10_000_000
_ISO = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


def _key(content: Content) -> str | None:
    if isinstance(inside(content.json, "recognizedPhrases"), list):
        return "recognizedPhrases"
    fast = any("offsetMilliseconds" in part for part in objects(content.json, "phrases"))
    return "phrases" if fast else None


def _detect_batch(content: Content) -> bool:
    return _key(content) is not None


def _phrases(content: Content) -> tuple[str, list[Any]]:
    key = _key(content)
    if key is not None:
        return key, content.json[key]
    return "", [part for part in content.objects if "NBest" in part or "RecognitionStatus" in part]


def _parse(content: Content, name: str) -> Transcript:
    key, phrases = _phrases(content)
    words: list[RawWord] = []
    voices: list[Voice] = []
    for number, phrase in enumerate(phrases):
        found = _words(phrase, f"{key}[{number}]")
        words += found
        voices += [_voice(phrase)] * len(found)
    told = any(_text(phrase) for phrase in phrases if isinstance(phrase, dict))
    if told and not any(word.fault is None for word in words):
        raise untimed(content, "has phrases, but no word of them has a time")
    labelled, channels = label_voices(words, voices, declared=_declared(content))
    return Transcript(labelled, name, content.path, channels=channels)


def _declared(content: Content) -> set[int]:
    """Every channel that was transcribed, also those in which nothing was heard."""
    return {
        part["channel"]
        for key in ("combinedRecognizedPhrases", "combinedPhrases")
        for part in objects(content.json, key)
        if isinstance(part.get("channel"), int)
    }


def _best(phrase: dict[str, Any]) -> dict[str, Any]:
    return next(objects(phrase, "nBest" if "nBest" in phrase else "NBest"), phrase)


def _text(phrase: dict[str, Any]) -> str:
    best = _best(phrase)
    found = (best.get(key) for key in ("display", "Display", "lexical", "Lexical", "text", "DisplayText"))
    return next((text for text in found if isinstance(text, str) and text.strip()), "")


def _words(phrase: object, where: str) -> list[RawWord]:
    if not isinstance(phrase, dict):
        return [malformed(phrase, where, "is not a phrase")]
    best = _best(phrase)
    for key in ("displayWords", "DisplayWords", "words", "Words"):
        words = best.get(key)
        if isinstance(words, list) and words:
            return [_word(word, f"{where}.{key}[{index}]", best) for index, word in enumerate(words)]
    return [malformed(_text(phrase), where, "has text but no timed words")] if _text(phrase) else []


def _word(word: object, item: str, best: dict[str, Any]) -> RawWord:
    if not isinstance(word, dict):
        return malformed(word, item, "is not an object")
    names = ("displayText", "DisplayText", "word", "Word", "text", "Text")
    text = next((word[name] for name in names if isinstance(word.get(name), str)), None)
    if text is None:
        return malformed(word, item, "has no text")
    confidence = word.get("confidence", word.get("Confidence"))
    return RawWord(text, *_span(word), "", as_confidence(confidence), item)


def _span(part: dict[str, Any]) -> tuple[object, object]:
    for start, length, per_second in (
        ("offsetInTicks", "durationInTicks", TICKS_PER_S),
        ("offsetMilliseconds", "durationMilliseconds", 1_000),
        ("Offset", "Duration", TICKS_PER_S),
    ):
        if start in part:
            return span(part[start], part.get(length), per_second)
    return span(_iso(part.get("offset")), _iso(part.get("duration")))


def _iso(value: object) -> object:
    match = _ISO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _voice(phrase: object) -> Voice:
    if not isinstance(phrase, dict):
        return Voice()
    channel = phrase.get("channel", phrase.get("Channel"))
    speaker = phrase.get("speaker", phrase.get("SpeakerId", phrase.get("Speaker")))
    return Voice(
        channel if isinstance(channel, int) else None, None if speaker in (None, "") else str(speaker)
    )


def _segments(content: Content) -> list[Segment]:
    key, phrases = _phrases(content)
    found = []
    for number, phrase in enumerate(phrases):
        start, end = _span(phrase) if isinstance(phrase, dict) else (None, None)
        if isinstance(start, float) and isinstance(end, float) and _text(phrase):
            voice = _voice(phrase)
            found.append(Segment(_text(phrase), start, end, voice.label, f"{key}[{number}]"))
    return found


def _detect_live(content: Content) -> bool:
    return any(
        "RecognitionStatus" in part and ("NBest" in part or "DisplayText" in part) for part in content.objects
    )


FORMAT = (
    TranscriptFormat(
        "azure-batch",
        "Azure batch or fast transcription JSON",
        (".json",),
        _detect_batch,
        lambda content: _parse(content, "azure-batch"),
        priority=5,
        segments=_segments,
    ),
    TranscriptFormat(
        "azure-real-time",
        "Azure real-time recognition JSON",
        (".json", ".jsonl"),
        _detect_live,
        lambda content: _parse(content, "azure-real-time"),
        priority=5,
        segments=_segments,
    ),
)
