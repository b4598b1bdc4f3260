"""Labels become agent and caller by a rule, and nobody becomes the agent by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.corpus.transcripts import SpeakerRule, Transcript, map_speakers
from inkplex_data.corpus.word_repair import RawWord


def transcript(*labels: str, channels: dict[int, str] | None = None, agent: str | None = None) -> Transcript:
    words = [RawWord("a", 0.0, 1.0, label, None, "") for label in labels]
    return Transcript(words, "x", Path("x"), channels=channels or {}, agent=agent)


TWO = {0: "ch_0", 1: "ch_1"}


@pytest.mark.parametrize(
    ("given", "rule", "wanted"),
    [
        (transcript("ch_0", "ch_1", channels=TWO), SpeakerRule(), ["SPEAKER_MAIN", "SPEAKER_CALLER"]),
        (
            transcript("ch_0", "ch_1", channels=TWO),
            SpeakerRule(agent_channel=1),
            ["SPEAKER_CALLER", "SPEAKER_MAIN"],
        ),
        (
            transcript("ch_0", "ch_1", channels=TWO),
            SpeakerRule(agent="1"),
            ["SPEAKER_CALLER", "SPEAKER_MAIN"],
        ),
        (
            transcript("ch_0", "ch_1", channels=TWO),
            SpeakerRule(swapped=True),
            ["SPEAKER_CALLER", "SPEAKER_MAIN"],
        ),
        (
            transcript("C", "A", agent="A", channels={0: "C"}),
            SpeakerRule(),
            ["SPEAKER_CALLER", "SPEAKER_MAIN"],
        ),
        (transcript("spk_0", "spk_1"), SpeakerRule(), ["spk_0", "spk_1"]),
        (transcript("Agent", "Ann"), SpeakerRule(), ["SPEAKER_MAIN", "SPEAKER_CALLER"]),
        (transcript("Agent", "Ann"), SpeakerRule(agent="Ann"), ["SPEAKER_CALLER", "SPEAKER_MAIN"]),
        (transcript("Agent", "AGENT"), SpeakerRule(), ["Agent", "AGENT"]),
        (transcript("ANN", "Bob"), SpeakerRule(agent="ann"), ["SPEAKER_MAIN", "SPEAKER_CALLER"]),
        (transcript("ANN", "Ann"), SpeakerRule(agent="ann"), ["ANN", "Ann"]),
        (transcript("spk_0", "spk_1"), SpeakerRule(agent="spk_1"), ["SPEAKER_CALLER", "SPEAKER_MAIN"]),
        (transcript("spk_0", "spk_1"), SpeakerRule(agent="nobody"), ["spk_0", "spk_1"]),
        (transcript("spk_0"), SpeakerRule(), ["spk_0"]),
        (transcript("x", "y", "z"), SpeakerRule(agent="y"), ["x", "SPEAKER_MAIN", "z"]),
        (transcript("SPEAKER_MAIN", "B"), SpeakerRule(), ["SPEAKER_MAIN", "B"]),
        (transcript("SPEAKER_MAIN", "B"), SpeakerRule(swapped=True), ["SPEAKER_CALLER", "SPEAKER_MAIN"]),
        # Nobody to take the agent's place, or too many: the agent's words must not stay the agent's.
        (transcript("SPEAKER_MAIN"), SpeakerRule(swapped=True), ["SPEAKER_CALLER"]),
        (transcript("SPEAKER_MAIN", "B", "C"), SpeakerRule(swapped=True), ["SPEAKER_CALLER", "B", "C"]),
        (
            transcript("SPEAKER_MAIN", "B", "C"),
            SpeakerRule(agent="B"),
            ["SPEAKER_UNKNOWN", "SPEAKER_MAIN", "C"],
        ),
        (transcript("A", "B"), SpeakerRule(main="B"), ["A", "B"]),
    ],
)
def test_mapping(given: Transcript, rule: SpeakerRule, wanted: list[str]) -> None:
    assert [word.speaker for word in map_speakers(given, rule).words] == wanted


def test_swapping_twice_gives_the_first_sides_back() -> None:
    once = map_speakers(transcript("SPEAKER_MAIN", "SPEAKER_CALLER"), SpeakerRule(swapped=True))
    twice = map_speakers(once, SpeakerRule(swapped=True))
    assert [word.speaker for word in twice.words] == ["SPEAKER_MAIN", "SPEAKER_CALLER"]
