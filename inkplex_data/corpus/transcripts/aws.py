"""Amazon Transcribe, `{"results": {"items": […], "speaker_labels"?, "channel_labels"?}}`, and its Call Analytics,
`{"Transcript": [{"ParticipantRole", "Items": [{"Content", "BeginOffsetMillis", "EndOffsetMillis"}]}]}`.

Times are seconds as text in the one and milliseconds in the other. Punctuation is an item without times and
belongs to the word before it. Diarized files name the speaker on each item, older ones only in
`speaker_labels.segments[].items`, by equal start and end.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

from inkplex_data.corpus.transcripts.transcript import (
    Content,
    Transcript,
    TranscriptFormat,
    as_confidence,
    as_number,
    entries,
    inside,
    label_speakers,
    malformed,
    objects,
    scaled,
    unreadable,
    with_punctuation,
)
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, SPEAKER_UNKNOWN, RawWord

BATCH = "aws-transcribe"
ANALYTICS = "aws-call-analytics"


def _detect_batch(content: Content) -> bool:
    results = inside(content.json, "results")
    held = results if isinstance(results, dict) else {}
    return "transcripts" in held and ("items" in held or "channel_labels" in held)


def _parse_batch(content: Content) -> Transcript:
    results = inside(content.json, "results")
    channels = _channel_items(results)
    if channels:
        words = [
            word
            for number, (label, items) in enumerate(channels)
            for word in _words(items, f"results.channel_labels.channels[{number}].items", label)
        ]
        if len(channels) > 1:
            labels = {number: label for number, (label, _) in enumerate(channels)}
            return Transcript(words, BATCH, content.path, channels=labels)
        return Transcript(_of_the_agent(words), BATCH, content.path)
    items = inside(results, "items")
    if not isinstance(items, list):
        raise unreadable(content, f"`results.items` is {type(items).__name__}, not a list")
    words = _words(items, "results.items", "", _speakers_by_time(results))
    voices = {word.speaker for word in words if word.speaker and word.fault is None}
    if len(voices) < 2:
        return Transcript(_of_the_agent(words), BATCH, content.path)
    return Transcript(label_speakers(words), BATCH, content.path)


def _channel_items(results: object) -> list[tuple[str, list[Any]]]:
    found = [
        (str(channel.get("channel_label") or f"ch_{number}"), channel["items"])
        for number, channel in enumerate(entries(results, "channel_labels", "channels"))
        if isinstance(inside(channel, "items"), list)
    ]
    return sorted(found, key=itemgetter(0))


def _speakers_by_time(results: object) -> dict[tuple[str, str], str]:
    return {
        (str(item.get("start_time")), str(item.get("end_time"))): item["speaker_label"]
        for segment in entries(results, "speaker_labels", "segments")
        for item in objects(segment, "items")
        if isinstance(item.get("speaker_label"), str)
    }


def _words(
    items: list[Any], where: str, speaker: str, by_time: dict[tuple[str, str], str] | None = None
) -> list[RawWord]:
    words: list[RawWord] = []
    for number, entry in enumerate(items):
        item = f"{where}[{number}]"
        best = next(objects(entry, "alternatives"), {})
        text = best.get("content")
        if not isinstance(text, str):
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


def _of_the_agent(words: list[RawWord]) -> list[RawWord]:
    return [replace(word, speaker=SPEAKER_MAIN) for word in words]


def _detect_analytics(content: Content) -> bool:
    turns = inside(content.json, "Transcript")
    return isinstance(turns, list) and (
        not turns or any("ParticipantRole" in turn for turn in objects(turns))
    )


def _parse_analytics(content: Content) -> Transcript:
    words: list[RawWord] = []
    for number, turn in enumerate(content.json["Transcript"]):
        where = f"Transcript[{number}]"
        items = inside(turn, "Items")
        if not isinstance(items, list):
            words.append(malformed(turn, where, "is not a turn with Items"))
            continue
        role = str(turn.get("ParticipantRole") or SPEAKER_UNKNOWN)
        words += _turn(items, where, role)
    return Transcript(words, ANALYTICS, content.path, agent="AGENT")


def _turn(items: list[Any], where: str, role: str) -> list[RawWord]:
    words: list[RawWord] = []
    for index, entry in enumerate(items):
        item = f"{where}.Items[{index}]"
        text = inside(entry, "Content")
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
