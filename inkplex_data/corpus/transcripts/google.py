"""Google Cloud Speech-to-Text v1 and v2: `{"results": [{"alternatives": [{"words": […]}], "channelTag"?}]}`, bare, or
in the `response` of a long-running operation.

Times are durations as text ("1.300s") or as seconds and nanos; v2 calls them startOffset and endOffset, and
leaves a zero out. Channels count from 1. With diarization the last result repeats the words of all before it,
now with speakers: only those are taken.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Transcript,
    TranscriptFormat,
    as_confidence,
    entries,
    inside,
    malformed,
    objects,
    untimed,
)
from inkplex_data.corpus.transcripts.voices import Voice, label_voices
from inkplex_data.corpus.word_repair import RawWord

NAME = "google-stt"
_STARTS = ("startTime", "startOffset", "start_time", "start_offset")
_ENDS = ("endTime", "endOffset", "end_time", "end_offset")


class _Result(NamedTuple):
    where: str
    channel: int | None
    text: str
    words: list[Any]

    @property
    def has_speakers(self) -> bool:
        return any(_speaker(word) is not None for word in self.words)


def _results(content: Content) -> list[Any]:
    operation = isinstance(inside(content.json, "response"), dict)
    return entries(content.json, *(["response"] if operation else []), "results")


def _detect(content: Content) -> bool:
    return any(isinstance(part.get("alternatives"), list) for part in objects(_results(content)))


def _read(content: Content) -> list[_Result]:
    found = []
    for number, part in enumerate(_results(content)):
        best = inside(part, "alternatives", 0)
        if isinstance(best, dict):
            tag = part.get("channelTag", part.get("channel_tag"))
            channel = tag if isinstance(tag, int) and tag > 0 else None
            text, where = str(best.get("transcript", "")), f"results[{number}].alternatives[0]"
            found.append(_Result(where, channel, text, entries(best, "words")))
    return found


def _parse(content: Content) -> Transcript:
    results = _read(content)
    if any(result.has_speakers for result in results):
        # Per channel: the one result that has the speakers holds the whole of it.
        whole = {result.channel for result in results if result.has_speakers}
        results = [result for result in results if result.has_speakers or result.channel not in whole]
    words: list[RawWord] = []
    voices: list[Voice] = []
    for result in results:
        for index, word in enumerate(result.words):
            words.append(_word(word, f"{result.where}.words[{index}]"))
            voices.append(Voice(result.channel, _speaker(word)))
    if not any(word.fault is None for word in words) and any(result.text.strip() for result in results):
        raise untimed(content, "has text, but no word of it has a time")
    labelled, channels = label_voices(words, voices, first_channel=1)
    return Transcript(labelled, NAME, content.path, channels=channels)


def _word(word: object, item: str) -> RawWord:
    if not isinstance(word, dict) or not isinstance(word.get("word"), str):
        return malformed(word, item, "has no text in 'word'")
    timed = any(name in word for name in (*_STARTS, *_ENDS))
    # A duration of zero may be left out; that of a word without any times may not.
    start, end = (
        next((_duration(word[name]) for name in names if name in word), 0 if timed else None)
        for names in (_STARTS, _ENDS)
    )
    # A confidence of 0 means that none was set.
    confidence = as_confidence(word.get("confidence")) or None
    return RawWord(word["word"], start, end, "", confidence, item)


def _speaker(word: object) -> str | None:
    tags = (inside(word, n) for n in ("speakerLabel", "speaker_label", "speakerTag", "speaker_tag"))
    return next((str(tag) for tag in tags if tag), None)


def _duration(value: object) -> object:
    """Seconds of "1.300s" or {"seconds": "1", "nanos": 300000000}; anything else as it is."""
    try:
        if isinstance(value, str) and value.endswith("s"):
            return float(Decimal(value[:-1]))
        if isinstance(value, dict):
            nanos = Decimal(str(value.get("nanos", 0)))
            return float(Decimal(str(value.get("seconds", 0))) + nanos / 1_000_000_000)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    return value


FORMAT = TranscriptFormat(NAME, "Google Speech-to-Text JSON", (".json",), _detect, _parse, priority=5)
