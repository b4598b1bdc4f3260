"""Every shipped transcript format passes the suite, each with a small file as its documentation shows it."""

from __future__ import annotations

import json
import math
from typing import Any

from inkplex_data.corpus.transcripts import formats
from tests.conformance.transcripts import JsonTranscriptConformance, TranscriptConformance, kinds


def test_every_format_has_a_sample() -> None:
    assert {kind.format for kind in kinds()} == {form.name for form in formats()}


def data(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


class TestMoshi(JsonTranscriptConformance):
    format = "moshi"
    sample = data(
        {
            "alignments": [["example", [1.2, 1.58], "SPEAKER_MAIN"], ["yes", [2, 2.5], "SPEAKER_01"]],
            "text_conditions": {"mood": "calm"},
            "confidence": [0.5, None],
            "method": "aligned",
        }
    )
    words = (("example", 1.2, 1.58, "SPEAKER_MAIN", 0.5), ("yes", 2, 2.5, "SPEAKER_01", None))
    entries = ("alignments",)


class TestWhisperTimestamped(JsonTranscriptConformance):
    format = "whisper-timestamped"
    sample = data(
        {
            "text": " Hello, world.",
            "segments": [
                {
                    "start": 0.5,
                    "end": 1.4,
                    "text": " Hello, world.",
                    "words": [
                        {"text": "Hello,", "start": 0.5, "end": 0.9, "confidence": 0.91},
                        {"text": "world.", "start": 1.0, "end": 1.4, "confidence": 0.42},
                    ],
                }
            ],
            "language": "en",
        }
    )
    words = (("Hello,", 0.5, 0.9, "SPEAKER_MAIN", 0.91), ("world.", 1.0, 1.4, "SPEAKER_MAIN", 0.42))
    entries = ("segments", 0, "words")


class TestWhisperX(JsonTranscriptConformance):
    """A word's label is its own, else its segment's; one without either is not the agent's. What the alphabet of the
    aligner cannot spell has no times."""

    format = "whisperx"
    sample = data(
        {
            "segments": [
                {
                    "start": 7.2,
                    "end": 8,
                    "text": " over $43,000. News",
                    "speaker": "SPEAKER_00",
                    "words": [
                        {"word": "over", "start": 7.278, "end": 7.398, "score": 0.998},
                        {"word": "$43,000."},
                        {"word": "News", "start": 7.96, "end": 8.101, "score": 0.542, "speaker": "SPEAKER_01"},
                    ],
                },
                {"start": 9, "end": 9.5, "text": "Yes", "words": [{"word": "Yes", "start": 9, "end": 9.5}]},
            ],
            "word_segments": [{"word": "over", "start": 7.278, "end": 7.398, "score": 0.998}],
        }
    )  # fmt: skip
    words = (
        ("over", 7.278, 7.398, "SPEAKER_00", 0.998),
        ("$43,000.", None, None, "SPEAKER_00", None),
        ("News", 7.96, 8.101, "SPEAKER_01", 0.542),
        ("Yes", 9, 9.5, "SPEAKER_UNKNOWN", None),
    )
    agent = None
    entries = ("segments", 0, "words")


class TestOpenAI(JsonTranscriptConformance):
    format = "openai"
    sample = data(
        {
            "task": "transcribe",
            "duration": 3.0,
            "text": "The stale",
            "words": [
                {"word": "The", "start": 0.0, "end": 0.4},
                {"word": "stale", "start": 0.4, "end": 0.9},
            ],
            "segments": [{"id": 0, "start": 0.0, "end": 1.3, "text": "The stale"}],
        }
    )
    words = (("The", 0.0, 0.4, "SPEAKER_MAIN", None), ("stale", 0.4, 0.9, "SPEAKER_MAIN", None))
    segments = (("The stale", 0.0, 1.3, ""),)
    entries = ("words",)


class TestFasterWhisper(JsonTranscriptConformance):
    """The words of openai-whisper and faster-whisper lie in the segments."""

    format = "openai"
    sample = data(
        {
            "text": " Hi there",
            "segments": [
                {
                    "start": 0.0,
                    "end": 1.0,
                    "text": " Hi there",
                    "words": [
                        {"word": " Hi", "start": 0.0, "end": 0.4, "probability": 0.8},
                        {"word": " there", "start": 0.4, "end": 1.0, "probability": 0.7},
                    ],
                }
            ],
        }
    )
    words = ((" Hi", 0.0, 0.4, "SPEAKER_MAIN", 0.8), (" there", 0.4, 1.0, "SPEAKER_MAIN", 0.7))
    segments = (("Hi there", 0.0, 1.0, ""),)
    entries = ("segments", 0, "words")


def aws_item(text: str, start: str, end: str) -> dict[str, Any]:
    return {
        "type": "pronunciation",
        "start_time": start,
        "end_time": end,
        "alternatives": [{"confidence": "0.5", "content": text}],
    }


class TestAwsTranscribe(JsonTranscriptConformance):
    """Punctuation is an item without times, and times are text."""

    format = "aws-transcribe"
    sample = data(
        {
            "jobName": "job",
            "results": {
                "transcripts": [{"transcript": "I've. Sorry"}],
                "channel_labels": {
                    "channels": [
                        {"channel_label": "ch_1", "items": [aws_item("Sorry", "8.5", "8.9")]},
                        {
                            "channel_label": "ch_0",
                            "items": [
                                aws_item("I've", "4.86", "5.01"),
                                {
                                    "type": "punctuation",
                                    "alternatives": [{"confidence": "0.0", "content": "."}],
                                },
                                aws_item("a", "5.2", "5.3"),
                            ],
                        },
                    ]
                },
                "items": [],
            },
        }
    )
    words = (
        ("I've.", 4.86, 5.01, "ch_0", 0.5),
        ("a", 5.2, 5.3, "ch_0", 0.5),
        ("Sorry", 8.5, 8.9, "ch_1", 0.5),
    )
    agent = "ch_0"
    entries = ("results", "channel_labels", "channels", 1, "items")


class TestAwsCallAnalytics(JsonTranscriptConformance):
    format = "aws-call-analytics"
    sample = data(
        {
            "Transcript": [
                {
                    "ParticipantRole": "AGENT",
                    "Items": [
                        {
                            "Type": "pronunciation",
                            "Content": "Hi",
                            "BeginOffsetMillis": 40,
                            "EndOffsetMillis": 330,
                            "Confidence": "0.99",
                        },
                        {"Type": "punctuation", "Content": ".", "Confidence": "0.0"},
                    ],
                },
                {
                    "ParticipantRole": "CUSTOMER",
                    "Items": [{"Content": "Bye", "BeginOffsetMillis": 4839, "EndOffsetMillis": 5000}],
                },
            ]
        }
    )
    words = (("Hi.", 0.04, 0.33, "AGENT", 0.99), ("Bye", 4.839, 5.0, "CUSTOMER", None))
    agent = "AGENT"
    entries = ("Transcript", 1, "Items")


class TestAzureBatch(JsonTranscriptConformance):
    format = "azure-batch"
    sample = data(
        {
            "combinedRecognizedPhrases": [{"channel": 0, "display": "Run."}],
            "recognizedPhrases": [
                {
                    "channel": 0,
                    "speaker": 1,
                    "offset": "PT0.04S",
                    "duration": "PT1S",
                    "offsetInTicks": 400_000,
                    "durationInTicks": 10_000_000,
                    "nBest": [
                        {
                            "display": "Run.",
                            "words": [
                                {
                                    "word": "run",
                                    "offsetInTicks": 400_000,
                                    "durationInTicks": 4_800_000,
                                    "confidence": 0.9,
                                },
                                {"word": "late", "offset": "PT1H2M3.5S", "duration": "PT0.25S"},
                            ],
                        }
                    ],
                }
            ],
        }
    )
    words = (("run", 0.04, 0.52, "SPEAKER_MAIN", 0.9), ("late", 3723.5, 3723.75, "SPEAKER_MAIN", None))
    segments = (("Run.", 0.04, 1.04, "speaker 1"),)
    entries = ("recognizedPhrases", 0, "nBest", 0, "words")


def azure_result(channel: int, text: str, ticks: int) -> dict[str, Any]:
    return {
        "RecognitionStatus": "Success",
        "Channel": channel,
        "DisplayText": text,
        "Offset": ticks,
        "Duration": 1_900_000,
        "NBest": [
            {
                "Confidence": 0.8,
                "Lexical": text,
                "Words": [{"Word": text, "Offset": ticks, "Duration": 1_900_000}],
            }
        ],
    }


class TestAzureRealTime(JsonTranscriptConformance):
    format = "azure-real-time"
    sample = data([azure_result(1, "well", 3_300_000), azure_result(0, "the", 1_300_000)])
    words = (("well", 0.33, 0.52, "channel 1", None), ("the", 0.13, 0.32, "channel 0", None))
    agent = "channel 0"
    segments = (("well", 0.33, 0.52, "channel 1"), ("the", 0.13, 0.32, "channel 0"))
    entries = (0, "NBest", 0, "Words")


class TestGoogle(JsonTranscriptConformance):
    format = "google-stt"
    sample = data(
        {
            "response": {
                "results": [
                    {
                        "channelTag": 1,
                        "alternatives": [
                            {
                                "transcript": "hello you",
                                "words": [
                                    {"word": "hello", "startTime": "0s", "endTime": "0.400s"},
                                    {
                                        "word": "you",
                                        "startOffset": {"seconds": "1", "nanos": 500000000},
                                        "endOffset": {"seconds": 2},
                                        "confidence": 0.9,
                                    },
                                ],
                            }
                        ],
                    },
                    {
                        "channelTag": 2,
                        "alternatives": [
                            {"transcript": "hi", "words": [{"word": "hi", "startTime": "1.300s", "endTime": "1.500s"}]}
                        ],
                    },
                ]
            }
        }
    )  # fmt: skip
    words = (
        ("hello", 0.0, 0.4, "channel 1", None),
        ("you", 1.5, 2.0, "channel 1", 0.9),
        ("hi", 1.3, 1.5, "channel 2", None),
    )
    agent = "channel 1"
    entries = ("response", "results", 0, "alternatives", 0, "words")


def deepgram_channel(text: str, start: float) -> dict[str, Any]:
    word = {"word": text.lower(), "punctuated_word": text, "start": start, "end": start + 0.25}
    return {"alternatives": [{"transcript": text, "words": [word | {"confidence": 0.9, "speaker": 0}]}]}


class TestDeepgram(JsonTranscriptConformance):
    format = "deepgram"
    sample = data(
        {
            "metadata": {},
            "results": {
                "channels": [deepgram_channel("Hello.", 0.5), deepgram_channel("Hi!", 1.5)],
                "utterances": [{"start": 0.4, "end": 5, "channel": 0, "transcript": "hello", "speaker": 1}],
            },
        }
    )
    words = (("Hello.", 0.5, 0.75, "channel 0", 0.9), ("Hi!", 1.5, 1.75, "channel 1", 0.9))
    agent = "channel 0"
    segments = (("hello", 0.4, 5.0, "speaker 1"),)
    entries = ("results", "channels", 0, "alternatives", 0, "words")


class TestDeepgramLive(TranscriptConformance):
    """A message a line; what was heard meanwhile is heard again, and better, in the final one."""

    format = "deepgram"
    sample = b"\n".join(
        data(message)
        for message in (
            {"type": "Metadata"},
            *(
                {
                    "type": "Results",
                    "is_final": text != "Hel",
                    "channel_index": [channel, 2],
                    "channel": deepgram_channel(text, start),
                }
                for text, channel, start in (("Hel", 0, 0.5), ("Hi", 1, 1.0), ("Hello", 0, 0.5))
            ),
        )
    )
    words = (("Hi", 1.0, 1.25, "channel 1", 0.9), ("Hello", 0.5, 0.75, "channel 0", 0.9))
    agent = "channel 0"


class TestHarperValley(JsonTranscriptConformance):
    format = "harper-valley"
    sample = data(
        [
            {
                "speaker_role": "agent",
                "transcript": "hello mr",
                "human_transcript": "hello mister",
                "start_ms": 1669,
                "offset_ms": 1669,
                "word_offsets_ms": [0, 690],
                "word_durations_ms": [450, 270],
            },
            {
                "speaker_role": "caller",
                "transcript": "hi",
                "start_ms": 5000,
                "offset_ms": 5000,
                "word_offsets_ms": [10],
                "word_durations_ms": [200],
            },
        ]
    )
    words = (
        ("hello", 1.669, 2.119, "agent", None),
        ("mr", 2.359, 2.629, "agent", None),
        ("hi", 5.01, 5.21, "caller", None),
    )
    agent = "agent"


class TestCtm(TranscriptConformance):
    format = "ctm"
    sample = b";; a comment\nsw2001 B 1.30 0.20 yes 0.5\nsw2001 A 0.10 0.08 hello\n"
    words = (("yes", 1.3, 1.5, "channel B", 0.5), ("hello", 0.1, 0.18, "channel A", None))
    agent = "channel A"


class TestTextGrid(TranscriptConformance):
    """The short form, with two speakers, quotes in a word, a pause and a tier of points."""

    format = "textgrid"
    sample = b'''File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
3
"IntervalTier"
"Ann - words"
0
2
3
0
0.5
"""so"""
0.5
1
"sp"
1
1.5
"yes"
"IntervalTier"
"Bob - words"
0
2
1
1.25
2
"no"
"TextTier"
"events"
0
2
1
0.7
"click"
'''
    segments = (('"so"', 0.0, 0.5, "Ann"), ("yes", 1.0, 1.5, "Ann"), ("no", 1.25, 2.0, "Bob"))
    words = tuple((*segment, None) for segment in segments)
    agent = None


class TestWebVtt(TranscriptConformance):
    format = "vtt"
    sample = (
        b"WEBVTT - a title\n\nNOTE nothing\n\nSTYLE\n::cue {}\n\nintro\n00:01.000 --> 00:02.500 align:start\n"
        b"<v Mary Ann>Hello <00:00:01.500><c>there</c></v>\n"
    )
    refused = "words-no-word-times"
    segments = (("Hello there", 1.0, 2.5, "Mary Ann"),)


class TestSubRip(TranscriptConformance):
    format = "srt"
    sample = (
        b"1\n00:00:01,500 --> 00:00:02,000\n<i>Agent:</i> Good\nday\n\n"
        b"2\n00:01:00,000 --> 01:00:00,25\n{\\an8}I say: no &amp; yes\n\n3\n00:00:05,000 --> 00:00:06,000\n\n"
    )
    refused = "words-no-word-times"
    segments = (("Good day", 1.5, 2.0, "Agent"), ("no & yes", 60.0, 3600.25, "I say"))


class TestRttm(TranscriptConformance):
    format = "rttm"
    sample = b"SPEAKER a 1 0.5 1.25 <NA> <NA> Ann <NA> <NA>\n"
    refused = "words-speakers-only"
    segments = (("", 0.5, 1.75, "Ann"),)


class TestPlainText(TranscriptConformance):
    format = "plain"
    file_name = "call.txt"
    sample = b"Agent: Good morning,\nhow can I help?\n\nMs. O'Hara:  My bill\tis wrong.\n>> Agent: Oh.\n"
    refused = "words-no-word-times"
    segments = (
        ("Good morning,", 0.0, math.inf, "Agent"),
        ("how can I help?", 0.0, math.inf, "Agent"),
        ("My bill is wrong.", 0.0, math.inf, "Ms. O'Hara"),
        ("Oh.", 0.0, math.inf, "Agent"),
    )
