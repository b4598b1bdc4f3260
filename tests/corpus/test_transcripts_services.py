"""Answers of speech services, as their documentation shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.transcripts import (
    SpeakerRule,
    Transcript,
    load_words,
    map_speakers,
    read_segments,
    read_transcript,
)
from inkplex_data.corpus.word_repair import WORD_DROPS
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog


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


AWS_MARK = {"type": "punctuation", "alternatives": [{"confidence": "0.0", "content": "."}]}


def aws(**results: Any) -> dict[str, Any]:
    return {"jobName": "job", "results": {"transcripts": [{"transcript": "…"}], **results}}


def test_aws_with_channels(tmp_path: Path) -> None:
    channels = [
        {"channel_label": "ch_1", "items": [aws_item("Sorry", "8.5", "8.9")]},
        {"channel_label": "ch_0", "items": [aws_item("I've", "4.86", "5.01"), AWS_MARK]},
    ]
    transcript = read(tmp_path, aws(channel_labels={"channels": channels}, items=[]))
    assert transcript.format == "aws-transcribe"
    assert words(transcript) == [("I've.", 4.86, 5.01, "ch_0"), ("Sorry", 8.5, 8.9, "ch_1")]
    assert mapped(transcript) == ["SPEAKER_MAIN", "SPEAKER_CALLER"]
    assert transcript.words[0].confidence == 0.5


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
    assert words(read(tmp_path, aws(items=[aws_item("a", "0.1", "0.2"), AWS_MARK]))) == [
        ("a.", 0.1, 0.2, "SPEAKER_MAIN")
    ]


def azure_result(channel: int, text: str, ticks: int) -> dict[str, Any]:
    word = {"Word": text, "Offset": ticks, "Duration": 1_900_000}
    return {
        "RecognitionStatus": "Success",
        "Channel": channel,
        "DisplayText": text,
        "Offset": ticks,
        "Duration": 1_900_000,
        "NBest": [{"Confidence": 0.8, "Lexical": text, "Words": [word]}],
    }


@pytest.mark.parametrize("lines", [True, False])
def test_azure_real_time(tmp_path: Path, lines: bool) -> None:
    results = [azure_result(1, "well", 3_300_000), azure_result(0, "the", 1_300_000)]
    document = "\n".join(map(json.dumps, results)) if lines else results
    transcript = read(tmp_path, document)
    assert transcript.format == "azure-real-time"
    assert words(transcript) == [("well", 0.33, 0.52, "channel 1"), ("the", 0.13, 0.32, "channel 0")]
    assert mapped(transcript) == ["SPEAKER_CALLER", "SPEAKER_MAIN"]


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


def test_azure_iso_times(tmp_path: Path) -> None:
    word = {"word": "late", "offset": "PT1H2M3.5S", "duration": "PT0.25S"}
    phrase = {"channel": 0, "nBest": [{"display": "Late.", "words": [word]}]}
    assert words(read(tmp_path, {"recognizedPhrases": [phrase]})) == [
        ("late", 3723.5, 3723.75, "SPEAKER_MAIN")
    ]


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


def test_google_channels(tmp_path: Path) -> None:
    results = [
        google_result(google_word("hello", "0s", "0.400s", confidence=0.9), channelTag=1),
        google_result(google_word("hi", "1.300s", "1.500s"), channelTag=2),
    ]
    transcript = read(tmp_path, {"response": {"results": results}})
    assert transcript.format == "google-stt"
    assert words(transcript) == [("hello", 0.0, 0.4, "channel 1"), ("hi", 1.3, 1.5, "channel 2")]
    assert transcript.channels == {0: "channel 1", 1: "channel 2"}
    assert mapped(transcript) == ["SPEAKER_MAIN", "SPEAKER_CALLER"]


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


def deepgram_channel(text: str, start: float, **more: Any) -> dict[str, Any]:
    word = {"word": text.lower(), "start": start, "end": start + 0.25, "confidence": 0.9, **more}
    return {"alternatives": [{"transcript": text, "words": [word | {"punctuated_word": text}]}]}


def test_deepgram_channels_over_voices(tmp_path: Path) -> None:
    channels = [deepgram_channel("Hello.", 0.5, speaker=0), deepgram_channel("Hi!", 1.5, speaker=1)]
    transcript = read(tmp_path, {"metadata": {}, "results": {"channels": channels}})
    assert transcript.format == "deepgram"
    assert words(transcript) == [("Hello.", 0.5, 0.75, "channel 0"), ("Hi!", 1.5, 1.75, "channel 1")]
    assert mapped(transcript) == ["SPEAKER_MAIN", "SPEAKER_CALLER"]


def test_deepgram_live_takes_final_results(tmp_path: Path) -> None:
    messages = [
        {"type": "Metadata"},
        {
            "type": "Results",
            "is_final": False,
            "channel_index": [0, 1],
            "channel": deepgram_channel("Hel", 0.5),
        },
        {
            "type": "Results",
            "is_final": True,
            "channel_index": [0, 1],
            "channel": deepgram_channel("Hello", 0.5),
        },
    ]
    transcript = read(tmp_path, "\n".join(map(json.dumps, messages)))
    assert words(transcript) == [("Hello", 0.5, 0.75, "SPEAKER_MAIN")]


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


def test_broken_entries_are_counted_not_raised(tmp_path: Path) -> None:
    """Whatever stands where a word should be, the readers go on, and every entry leaves a trace."""
    junk: list[Any] = [None, 3, "x", [], {}, {"alternatives": 5}]
    for document in (
        aws(items=junk),
        {"Transcript": [{"ParticipantRole": "AGENT", "Items": junk}, None]},
        {"recognizedPhrases": [{"nBest": [{"words": junk}]}, None]},
        {"results": {"channels": [{"alternatives": [{"words": junk}]}, None]}},
        {"results": [{"alternatives": [{"words": junk}]}, None]},
    ):
        found = read(tmp_path, document).words
        assert len(found) >= len(junk) and all(word.fault for word in found)


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


LONG = "1" + "0" * 400
"""More than a double holds, and correct JSON."""


@pytest.mark.parametrize(
    "document",
    [
        '{"alignments": [["hi", [LONG, LONG], "SPEAKER_MAIN"]], "confidence": [LONG]}',
        '{"Transcript": [{"ParticipantRole": "AGENT", "Items": [{"Content": "hi", "BeginOffsetMillis": LONG, '
        '"EndOffsetMillis": LONG, "Confidence": LONG}]}]}',
        '{"recognizedPhrases": [{"nBest": [{"words": [{"word": "hi", "offsetInTicks": LONG, "durationInTicks": 1}]}]}]}',
        '{"results": [{"alternatives": [{"words": [{"word": "hi", "startTime": "sNaNs", "confidence": LONG}]}]}]}',
        '[{"speaker_role": "agent", "transcript": "hi", "word_offsets_ms": [LONG], "word_durations_ms": [LONG], '
        '"start_ms": 0, "offset_ms": LONG}]',
        '{"word_segments": [{"word": "hi", "start": LONG, "end": LONG, "score": LONG}]}',
    ],
)
def test_numbers_that_no_double_holds_are_words_lost(tmp_path: Path, document: str) -> None:
    (tmp_path / "call.json").write_text(document.replace("LONG", LONG))
    log = ProblemLog("call")
    kept, _ = load_words(tmp_path / "call.json", duration_us=1_000_000, log=log)
    assert kept == []
    assert log.count(*WORD_DROPS) == 1


@pytest.mark.parametrize(
    "document",
    [
        '{"text": "hi", "segments": [{"text": "hi", "start": LONG, "end": NaN}]}',
        '{"results": {"channels": [], "utterances": [{"transcript": "hi", "start": LONG, "end": NaN}]}}',
    ],
)
def test_a_segment_needs_finite_times(tmp_path: Path, document: str) -> None:
    (tmp_path / "call.json").write_text(document.replace("LONG", LONG))
    assert read_segments(tmp_path / "call.json") == []
