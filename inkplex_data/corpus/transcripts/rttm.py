"""RTTM: who speaks when, and no words. `SPEAKER recording channel start duration <NA> <NA> name <NA> <NA>` a line."""

from __future__ import annotations

import re

from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    own_audio,
    span,
    unreadable,
)
from inkplex_data.problems import refusal

NAME = "rttm"
_KINDS = re.compile(
    "SPEAKER|SPKR-INFO|LEXEME|NON-LEX|NON-SPEECH|FILLER|EDIT|IP|SU|CB|A/P|SEGMENT|NOSCORE|NO_RT_METADATA"
)
_SPEAKER_FIELDS = 8


def _detect(content: Content) -> bool:
    lines = content.fields[:20] if content.json is NOT_JSON else []
    return any(fields[0] == "SPEAKER" for _, fields in lines) and all(
        _KINDS.fullmatch(fields[0]) for _, fields in lines
    )


def recordings(content: Content) -> list[str]:
    """Names of the recordings that a file has speaker turns of, in their order."""
    found = (fields[1] for _, fields in content.fields if fields[0] == "SPEAKER" and len(fields) > 1)
    return list(dict.fromkeys(found))


def turns(content: Content, recording: str | None = None) -> list[Segment]:
    """The speaker turns of one recording, in file order, without text.

    `recording` defaults to the one that the file holds, or the one named like the file.
    Raises CallRefused (words-unreadable) for a malformed line, and where it is not clear which recording.
    """
    recording = own_audio(content, recordings(content)) if recording is None else recording
    found = []
    for number, fields in content.fields:
        if fields[0] != "SPEAKER":
            continue
        if len(fields) < _SPEAKER_FIELDS:
            raise unreadable(content, f"line {number} has {len(fields)} of {_SPEAKER_FIELDS} fields")
        start, end = span(fields[3], fields[4])
        if not isinstance(start, float) or not isinstance(end, float):
            raise unreadable(content, f"line {number} has no start and duration: {' '.join(fields[3:5])}")
        if fields[1] == recording:
            found.append(Segment("", start, end, fields[7], f"line {number}"))
    return found


def _parse(content: Content) -> Transcript:
    raise refusal("words-speakers-only", "says who speaks when, but has no words", content.path)


FORMAT = TranscriptFormat(NAME, "RTTM", (), _detect, _parse, segments=turns)
