"""Amazon Transcribe, `{"results": {"items": […], "speaker_labels"?, "channel_labels"?}}`, and its Call Analytics,
`{"Transcript": [{"ParticipantRole", "Items": [{"Content", "BeginOffsetMillis", "EndOffsetMillis"}]}]}`.

Times are seconds as text in the one and milliseconds in the other. Punctuation is an item without times and
belongs to the word before it. Diarized files name the speaker on each item, older ones only in
`speaker_labels.segments[].items`, by equal start and end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Transcript,
    TranscriptFormat,
    as_confidence,
    as_number,
    malformed,
    scaled,
    unreadable,
    with_punctuation,
)
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord

BATCH = "aws-transcribe"
ANALYTICS = "aws-call-analytics"


def _results(content: Content) -> dict[str, Any] | None:
    document = content.json
    results = document.get("results") if isinstance(document, dict) else None
    return results if isinstance(results, dict) else None


def _detect_batch(content: Content) -> bool:
    results = _results(content)
    return (
        results is not None
        and ("items" in results or "channel_labels" in results)
        and "transcripts" in results
    )


def _parse_batch(content: Content) -> Transcript:
    results = _results(content) or {}
    channels = _channel_items(results)
    if channels:
        labels = [label for label, _ in channels]
        words = [
            word
            for number, (label, items) in enumerate(channels)
            for word in _words(items, f"results.channel_labels.channels[{number}].items", label)
        ]
        if len(labels) > 1:
            return Transcript(words, BATCH, content.path, channels=dict(enumerate(labels)))
        return Transcript(_relabelled(words, SPEAKER_MAIN), BATCH, content.path)
    items = results.get("items")
    if not isinstance(items, list):
        raise unreadable(content, f"`results.items` is {type(items).__name__}, not a list")
    words = _words(items, "results.items", "", _speakers_by_time(results))
    voices = {word.speaker for word in words if word.speaker and word.fault is None}
    if len(voices) < 2:
        return Transcript(_relabelled(words, SPEAKER_MAIN), BATCH, content.path)
    known = [word if word.speaker else _relabelled([word], SPEAKER_UNKNOWN)[0] for word in words]
    return Transcript(known, BATCH, content.path)


def _channel_items(results: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    labels = results.get("channel_labels")
    channels = labels.get("channels") if isinstance(labels, dict) else None
    found = []
    for number, channel in enumerate(channels if isinstance(channels, list) else ()):
        items = channel.get("items") if isinstance(channel, dict) else None
        if isinstance(items, list):
            found.append((str(channel.get("channel_label", f"ch_{number}")), items))
    return sorted(found, key=lambda pair: pair[0])


def _speakers_by_time(results: dict[str, Any]) -> dict[tuple[object, object], str]:
    labels = results.get("speaker_labels")
    segments = labels.get("segments") if isinstance(labels, dict) else None
    found: dict[tuple[object, object], str] = {}
    for segment in segments if isinstance(segments, list) else ():
        for item in _dicts(segment.get("items") if isinstance(segment, dict) else None):
            label = item.get("speaker_label")
            if isinstance(label, str):
                found[str(item.get("start_time")), str(item.get("end_time"))] = label
    return found


def _words(
    items: list[Any], where: str, speaker: str, by_time: dict[tuple[object, object], str] | None = None
) -> list[RawWord]:
    words: list[RawWord] = []
    for number, entry in enumerate(items):
        item = f"{where}[{number}]"
        best = next(_dicts(entry.get("alternatives") if isinstance(entry, dict) else None), None)
        text = best.get("content") if best is not None else None
        if best is None or not isinstance(text, str):
            words.append(malformed(entry, item, "has no alternative with content"))
            continue
        if entry.get("type") == "punctuation" and words and words[-1].fault is None:
            words[-1] = with_punctuation(words[-1], text)
            continue
        start, end = entry.get("start_time"), entry.get("end_time")
        label = speaker or entry.get("speaker_label") or (by_time or {}).get((str(start), str(end)), "")
        confidence = as_confidence(best.get("confidence"))
        words.append(RawWord(text, as_number(start), as_number(end), str(label), confidence, item))
    return words


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    return (part for part in (value if isinstance(value, list) else ()) if isinstance(part, dict))


def _relabelled(words: list[RawWord], label: str) -> list[RawWord]:
    return [
        RawWord(word.text, word.start, word.end, label, word.confidence, word.item, word.fault)
        for word in words
    ]


def _detect_analytics(content: Content) -> bool:
    document = content.json
    turns = document.get("Transcript") if isinstance(document, dict) else None
    return isinstance(turns, list) and (not turns or any("ParticipantRole" in turn for turn in _dicts(turns)))


def _parse_analytics(content: Content) -> Transcript:
    words: list[RawWord] = []
    for number, turn in enumerate(content.json["Transcript"]):
        where = f"Transcript[{number}]"
        items = turn.get("Items") if isinstance(turn, dict) else None
        if not isinstance(items, list):
            words.append(malformed(turn, where, "is not a turn with Items"))
            continue
        role = str(turn.get("ParticipantRole", SPEAKER_UNKNOWN))
        words += _turn(items, where, role)
    return Transcript(words, ANALYTICS, content.path, agent="AGENT")


def _turn(items: list[Any], where: str, role: str) -> list[RawWord]:
    words: list[RawWord] = []
    for index, entry in enumerate(items):
        item = f"{where}.Items[{index}]"
        text = entry.get("Content") if isinstance(entry, dict) else None
        if not isinstance(text, str):
            words.append(malformed(entry, item, "has no Content"))
        elif entry.get("Type") == "punctuation" and words and words[-1].fault is None:
            words[-1] = with_punctuation(words[-1], text)
        else:
            start, end = (scaled(entry.get(f"{edge}OffsetMillis"), 1_000) for edge in ("Begin", "End"))
            words.append(RawWord(text, start, end, role, as_confidence(entry.get("Confidence")), item))
    return words


FORMAT = (
    TranscriptFormat(BATCH, "Amazon Transcribe JSON", (".json",), _detect_batch, _parse_batch, priority=5),
    TranscriptFormat(
        ANALYTICS,
        "Amazon Transcribe Call Analytics JSON",
        (".json",),
        _detect_analytics,
        _parse_analytics,
        priority=5,
    ),
)
