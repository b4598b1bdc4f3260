"""RTTM: who speaks when, and no words. `SPEAKER recording channel start duration <NA> <NA> name <NA> <NA>` a line."""

from __future__ import annotations

from pathlib import PurePath

from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
    span,
    unreadable,
)
from inkplex_data.problems import refusal

NAME = "rttm"
_SPOKEN = (
    "SPEAKER",
    "SPKR-INFO",
    "LEXEME",
    "NON-LEX",
    "NON-SPEECH",
    "FILLER",
    "EDIT",
    "IP",
    "SU",
    "CB",
    "A/P",
)
_KINDS = frozenset((*_SPOKEN, "SEGMENT", "NOSCORE", "NO_RT_METADATA"))
_SPEAKER_FIELDS = 8


def _lines(content: Content) -> list[tuple[int, list[str]]]:
    numbered = enumerate(content.text.splitlines(), start=1)
    return [(number, line.split()) for number, line in numbered if line.strip() and not line.startswith(";;")]


def _detect(content: Content) -> bool:
    lines = _lines(content)[:20] if content.json is NOT_JSON else []
    return any(fields[0] == "SPEAKER" for _, fields in lines) and all(
        fields[0] in _KINDS for _, fields in lines
    )


def recordings(content: Content) -> list[str]:
    """Names of the recordings that a file has speaker turns of, in their order."""
    found = (fields[1] for _, fields in _lines(content) if fields[0] == "SPEAKER" and len(fields) > 1)
    return list(dict.fromkeys(found))


def turns(content: Content, recording: str | None = None) -> list[Segment]:
    """The speaker turns of one recording, in file order, without text.

    `recording` defaults to the one that the file holds, or the one named like the file.
    Raises CallRefused (words-unreadable) for a line that is none, and where it is not clear which recording.
    """
    lines = [(number, fields) for number, fields in _lines(content) if fields[0] == "SPEAKER"]
    known = recordings(content)
    if recording is None:
        own = (
            known if len(known) == 1 else [name for name in known if PurePath(name).stem == content.path.stem]
        )
        if len(own) != 1:
            raise unreadable(
                content, f"holds {len(known)} recordings, none named like it: {', '.join(known[:5])}"
            )
        recording = own[0]
    found = []
    for number, fields in lines:
        if len(fields) < _SPEAKER_FIELDS:
            raise unreadable(content, f"line {number} has {len(fields)} of {_SPEAKER_FIELDS} fields")
        start, end = span(fields[3], fields[4])
        if not isinstance(start, float) or not isinstance(end, float):
            raise unreadable(content, f"line {number} has no start and duration: {' '.join(fields[3:5])}")
        if fields[1] == recording:
            found.append(Segment("", start, end, fields[7], f"line {number}"))
    return found


def _parse(content: Content) -> Transcript:
    raise refusal("words-speakers-only", "says who speaks when, and has no words", content.path)


FORMAT = TranscriptFormat(NAME, "RTTM", (), _detect, _parse, segments=turns)
