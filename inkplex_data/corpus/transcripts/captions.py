"""SubRip (.srt) and WebVTT (.vtt) captions: text with one pair of times a cue, and no times of words."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from decimal import Decimal

from inkplex_data.corpus.transcripts.plain import NAMED
from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    untimed,
)

_TIME = r"(?:(\d{1,9}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_ARROW = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
# No part can match what the next one may begin with, so that hostile text takes linear time.
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^\s<>][^<>]*)>")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_HEAD_LINES = 50


def _is_vtt(content: Content) -> bool:
    return content.text.lstrip("\ufeff").startswith("WEBVTT")


def _is_srt(content: Content) -> bool:
    if content.json is not NOT_JSON or _is_vtt(content):
        return False
    head = content.text.splitlines()[:_HEAD_LINES]
    first = next((line for line in head if line.strip() and not line.strip().isdecimal()), "")
    return _ARROW.fullmatch(first) is not None


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
    return float(whole + Decimal(f"0.{fraction}"))


def _cues(text: str) -> Iterator[tuple[int, float, float, str]]:
    """Line of the times, start, end and the text as it stands."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = _ARROW.fullmatch(line)
        if match is None:
            continue
        body = []
        for place in range(number + 1, len(lines)):
            if not lines[place].strip() or _ARROW.fullmatch(lines[place]):
                break
            body.append(lines[place].strip())
        yield number + 1, _seconds(*match.groups()[:4]), _seconds(*match.groups()[4:]), "\n".join(body)


def segments(content: Content) -> list[Segment]:
    """Every cue that says something. The speaker is that of a voice tag or of a "Name: " before the text."""
    found = []
    for line, start, end, raw in _cues(content.text):
        voice = _VOICE.search(raw)
        text = html.unescape(_TAG.sub("", raw))
        prefix = NAMED.match(text) if voice is None else None
        speaker = voice.group(1) if voice else prefix.group(1) if prefix else ""
        spoken = " ".join((prefix.group(2) if prefix else text).split())
        if spoken:
            found.append(Segment(spoken, start, end, speaker.strip(), f"line {line}"))
    return found


def _parse(content: Content) -> Transcript:
    raise untimed(content, f"has {len(segments(content))} captions, but no word of them has a time")


FORMAT = (
    TranscriptFormat("vtt", "WebVTT", (".vtt",), _is_vtt, _parse, priority=5, segments=segments),
    TranscriptFormat("srt", "SubRip", (".srt",), _is_srt, _parse, priority=5, segments=segments),
)
