"""CTM, the time-marked words of NIST's scoring tools: `recording channel start duration word [confidence]` a line.

`;;` begins a comment. A file may hold several recordings: the one named like the file is taken. Channels are
ordered by their names (0, 1 or A, B), and the first one is channel 0.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation

from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Transcript,
    TranscriptFormat,
    as_confidence,
    malformed,
    own_audio,
    span,
)
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord

NAME = "ctm"
_FIELDS = 5
_LOOK_LINES = 20


def _detect(content: Content) -> bool:
    lines = [fields for _, fields in content.fields[:_LOOK_LINES]]
    return content.json is NOT_JSON and bool(lines) and all(_is_entry(fields) for fields in lines)


def _is_entry(fields: list[str]) -> bool:
    if len(fields) < _FIELDS or len(fields[1]) > 16:
        return False
    try:
        return Decimal(fields[2]).is_finite() and Decimal(fields[3]) >= 0
    except InvalidOperation:
        return fields[2] == "*" == fields[3]  # marks of alternatives


def _parse(content: Content) -> Transcript:
    lines = content.fields
    names = list(dict.fromkeys(fields[0] for _, fields in lines))
    own = own_audio(content, names) if names else ""
    words = [_word(fields, f"line {number}") for number, fields in lines if fields[0] == own]
    labels = sorted({word.speaker for word in words if word.fault is None})
    if len(labels) > 1 or labels in (["channel 2"], ["channel B"]):
        # A second channel alone is that of a call in which the first side was not heard.
        labels = labels if len(labels) > 1 else ["channel 1", *labels]
        return Transcript(words, NAME, content.path, channels=dict(enumerate(labels)))
    return Transcript([replace(word, speaker=SPEAKER_MAIN) for word in words], NAME, content.path)


def _word(fields: list[str], item: str) -> RawWord:
    if len(fields) < _FIELDS:
        return malformed(" ".join(fields), item, f"has {len(fields)} of {_FIELDS} fields")
    start, end = span(fields[2], fields[3])
    confidence = as_confidence(fields[5]) if len(fields) > _FIELDS else None
    label = f"channel {fields[1]}" if fields[1] else SPEAKER_UNKNOWN
    return RawWord(fields[4], start, end, label, confidence, item)


FORMAT = TranscriptFormat(NAME, "CTM", (".ctm",), _detect, _parse, priority=-5)
