"""Answers of speech services, as their documentation shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.transcripts import (
    SpeakerRule,
    Transcript,
    map_speakers,
    read_segments,
    read_transcript,
)
from inkplex_data.errors import CallRefused


def read(folder: Path, document: Any) -> Transcript:
    path = folder / "call.json"
    lines = document if isinstance(document, str) else json.dumps(document)
    path.write_text(lines)
    return read_transcript(path)


def words(transcript: Transcript) -> list[tuple[str, object, object, str]]:
    return [(word.text, word.start, word.end, word.speaker) for word in transcript.words]


def mapped(transcript: Transcript) -> list[str]:
    return [word.speaker for word in map_speakers(transcript).words]


def aws_item(text: str, start: str, end: str, **more: str) -> dict[str, Any]:
    alternatives = [{"confidence": "0.5", "content": text}]
    return {
        "type": "pronunciation",
        "start_time": start,
        "end_time": end,
        "alternatives": alternatives,
        **more,
    }


def aws(**results: Any) -> dict[str, Any]:
    return {"jobName": "job", "results": {"transcripts": [{"transcript": "…"}], **results}}


@pytest.mark.parametrize("on_items", [True, False])
def test_aws_with_voices(tmp_path: Path, on_items: bool) -> None:
    """Older files name the speakers in the segments only; the times connect them."""
    times = [("4.87", "5.02", "spk_0"), ("8.49", "8.88", "spk_1")]
    items = [
        aws_item("a", start, end, **({"speaker_label": who} if on_items else {})) for start, end, who in times
    ]
    segments = [
        {"speaker_label": who, "items": [{"start_time": start, "end_time": end, "speaker_label": who}]}
        for start, end, who in times
    ]
    transcript = read(tmp_path, aws(speaker_labels={"segments": segments}, items=items))
    assert transcript.speakers == ["spk_0", "spk_1"] == mapped(transcript)


def test_aws_without_labels_is_what_was_transcribed(tmp_path: Path) -> None:
    mark = {"type": "punctuation", "alternatives": [{"confidence": "0.0", "content": "."}]}
    assert words(read(tmp_path, aws(items=[aws_item("a", "0.1", "0.2"), mark]))) == [
        ("a.", 0.1, 0.2, "SPEAKER_MAIN")
    ]


def test_azure_fast_transcription(tmp_path: Path) -> None:
    phrase = {
        "channel": 0,
        "speaker": 1,
        "offsetMilliseconds": 40,
        "durationMilliseconds": 500,
        "text": "Good day.",
        "words": [
            {"text": "Good", "offsetMilliseconds": 40, "durationMilliseconds": 200},
            {"text": "day.", "offsetMilliseconds": 300, "durationMilliseconds": 240},
        ],
    }
    transcript = read(tmp_path, {"durationMilliseconds": 999, "combinedPhrases": [], "phrases": [phrase]})
    assert words(transcript) == [("Good", 0.04, 0.24, "SPEAKER_MAIN"), ("day.", 0.3, 0.54, "SPEAKER_MAIN")]


def test_azure_phrases_without_words_are_segments(tmp_path: Path) -> None:
    phrase = {"channel": 1, "offsetInTicks": 1e7, "durationInTicks": 5e6, "nBest": [{"display": "Hi there."}]}
    with pytest.raises(CallRefused) as refused:
        read(tmp_path, {"recognizedPhrases": [phrase]})
    assert refused.value.code == "words-no-word-times"
    (segment,) = read_segments(tmp_path / "call.json")
    assert (segment.text, segment.start_s, segment.end_s, segment.speaker) == (
        "Hi there.",
        1.0,
        1.5,
        "channel 1",
    )


def google_word(text: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    return {"word": text, "startTime": start, "endTime": end, **more}


def google_result(*found: dict[str, Any], **more: Any) -> dict[str, Any]:
    transcript = " ".join(word["word"] for word in found)
    return {"alternatives": [{"transcript": transcript, "words": list(found)}], **more}


def test_google_repeats_all_words_with_their_speakers(tmp_path: Path) -> None:
    plain = google_word("hello", "0.1s", "0.4s"), google_word("hi", "1s", "1.2s")
    told = google_word("hello", "0.1s", "0.4s", speakerTag=2), google_word("hi", "1s", "1.2s", speakerTag=1)
    results = [google_result(plain[0]), google_result(plain[1]), google_result(*told)]
    assert words(read(tmp_path, {"results": results})) == [
        ("hello", 0.1, 0.4, "speaker 2"),
        ("hi", 1.0, 1.2, "speaker 1"),
    ]


def test_google_v2_leaves_zero_out(tmp_path: Path) -> None:
    found = [
        {"word": "a", "endOffset": "0.2s"},
        {"word": "b", "startOffset": {"seconds": "1", "nanos": 500000000}, "endOffset": {"seconds": 2}},
        {"word": "c"},
    ]
    assert words(read(tmp_path, {"results": [google_result(*found)]})) == [
        ("a", 0, 0.2, "SPEAKER_MAIN"),
        ("b", 1.5, 2.0, "SPEAKER_MAIN"),
        ("c", None, None, "SPEAKER_MAIN"),
    ]


def test_google_without_word_times(tmp_path: Path) -> None:
    with pytest.raises(CallRefused, match="no word of it has a time"):
        read(tmp_path, {"results": [{"alternatives": [{"transcript": "hello there"}]}]})


def test_deepgram_utterances_are_segments(tmp_path: Path) -> None:
    document = {
        "results": {
            "channels": [{"alternatives": [{"transcript": "hello", "words": []}]}],
            "utterances": [{"start": 0.4, "end": 5, "channel": 0, "transcript": "hello"}],
        }
    }
    with pytest.raises(CallRefused):
        read(tmp_path, document)
    assert read_segments(tmp_path / "call.json")[0].end_s == 5.0


def test_harper_valley_counts_what_it_cannot_time(tmp_path: Path) -> None:
    segment = {
        "speaker_role": "agent",
        "transcript": "two words",
        "offset_ms": 100,
        "start_ms": 100,
        "word_offsets_ms": [0],
        "word_durations_ms": [10],
    }
    (word,) = read(tmp_path, [segment]).words
    assert word.fault == "has 2 words and 1 word times"


HEARD = {"word": "hi", "start": 0.0, "end": 0.4}
ONE_SIDE = [
    {"results": {"channels": [{"alternatives": [{"words": words}]} for words in ([], [HEARD])]}},
    {"type": "Results", "channel_index": [1, 2], "channel": {"alternatives": [{"words": [HEARD]}]}},
    {
        "combinedRecognizedPhrases": [{"channel": 0, "display": ""}, {"channel": 1, "display": "hi"}],
        "recognizedPhrases": [
            {
                "channel": 1,
                "nBest": [{"words": [{"word": "hi", "offsetInTicks": 0, "durationInTicks": 4_000_000}]}],
            }
        ],
    },
    {
        "results": [
            {
                "channelTag": 2,
                "alternatives": [{"words": [{"word": "hi", "startTime": "0s", "endTime": "0.4s"}]}],
            }
        ]
    },
]


@pytest.mark.parametrize("document", ONE_SIDE)
def test_a_caller_alone_is_not_the_agent(tmp_path: Path, document: Any) -> None:
    transcript = read(tmp_path, document)
    assert [word.speaker for word in map_speakers(transcript).words] == ["SPEAKER_CALLER"]
    other = map_speakers(transcript, SpeakerRule(agent_channel=1))
    assert [word.speaker for word in other.words] == ["SPEAKER_MAIN"]


"""More than a double holds, and correct JSON."""
