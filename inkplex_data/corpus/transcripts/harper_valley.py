"""The Gridspace-Stanford Harper Valley corpus: a list of segments with `speaker_role`, `transcript` and the offsets
and durations of its words in milliseconds.

A segment has two starts. `start_ms` counts on its own channel's clock, which runs from the moment that
this side was picked up, and `offset_ms` on the clock that both sides share: together with `start_timestamp_ms`
it gives the same instant for every segment of a file. Words are put on the shared clock, and the distance of
each side's own clock is reported. The words are the machine's, whose times the file has; `human_transcript`
has none.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Transcript,
    TranscriptFormat,
    is_finite,
    malformed,
    span,
)
from inkplex_data.corpus.word_repair import SPEAKER_UNKNOWN, RawWord

NAME = "harper-valley"


def _detect(content: Content) -> bool:
    document = content.json
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(segment, dict) for segment in document)
        and any("word_offsets_ms" in segment and "speaker_role" in segment for segment in document)
    )


def _parse(content: Content) -> Transcript:
    words: list[RawWord] = []
    distances: dict[str, Counter[int]] = {}
    for number, segment in enumerate(content.json):
        role = str(segment.get("speaker_role") or SPEAKER_UNKNOWN)
        words += _words(segment, f"[{number}]", role)
        own, shared = segment.get("start_ms"), segment.get("offset_ms")
        if isinstance(own, int) and isinstance(shared, int) and is_finite(shared - own):
            distances.setdefault(role, Counter())[shared - own] += 1
    offsets = {role: counts.most_common(1)[0][0] for role, counts in distances.items()}
    notes = [
        ("words-clock-offset", f"{role}'s own clock began {offset / 1000:.3f} s after the shared one")
        for role, offset in sorted(offsets.items())
        if offset
    ]
    notes += [
        ("words-clock-unsteady", f"{role}'s own clock is off by {sorted(counts)} ms in its segments")
        for role, counts in sorted(distances.items())
        if len(counts) > 1
    ]
    return Transcript(
        words,
        NAME,
        content.path,
        agent="agent",
        clock_offsets_us={role: offset * 1000 for role, offset in offsets.items()},
        notes=notes,
    )


def _words(segment: dict[str, Any], where: str, role: str) -> list[RawWord]:
    text, base = segment.get("transcript"), segment.get("offset_ms")
    offsets, lengths = segment.get("word_offsets_ms"), segment.get("word_durations_ms")
    if not isinstance(text, str) or not isinstance(offsets, list) or not isinstance(lengths, list):
        return [malformed(segment, where, "is not a segment with a transcript and word times")]
    spoken = text.split()
    if not len(spoken) == len(offsets) == len(lengths) or not isinstance(base, int):
        return [malformed(text, where, f"has {len(spoken)} words and {len(offsets)} word times")]
    return [
        RawWord(word, *_times(base, offset, length), role, None, f"{where}.transcript[{index}]")
        for index, (word, offset, length) in enumerate(zip(spoken, offsets, lengths, strict=True))
    ]


def _times(base_ms: int, offset_ms: object, length_ms: object) -> tuple[object, object]:
    if not is_finite(offset_ms):
        return offset_ms, None
    return span(base_ms + offset_ms, length_ms, 1_000)


FORMAT = TranscriptFormat(NAME, "Harper Valley JSON", (".json",), _detect, _parse, priority=5)
