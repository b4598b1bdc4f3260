"""Whose captions are whose: by the rule for labels, by the side that speaks, and never by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inkplex_data.audio.call_scan import SIDES
from inkplex_data.corpus.transcripts import Segment, SpeakerRule
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog
from inkplex_data.speech.align.known import Sided, assign_sides
from inkplex_data.speech.align.sides import SideActivity, side_activity

RULE = SpeakerRule()


def talking(agent: list[tuple[float, float]], caller: list[tuple[float, float]]) -> SideActivity:
    """Activity of a call of 20 s in which the sides speak in these seconds."""
    speech = {
        side: (np.array(spans, np.float64).reshape(-1, 2) * 1e6).astype(np.int64)
        for side, spans in zip(SIDES, (agent, caller), strict=True)
    }
    steps = {side: np.zeros(2_000, np.bool_) for side in SIDES}
    for side in SIDES:
        for start, end in speech[side].tolist():
            steps[side][start // 10_000 : end // 10_000] = True
    return SideActivity(speech, steps)


def captions(*given: tuple[float, float, str]) -> list[Segment]:
    return [Segment(f"text {n}", a, b, name, f"line {n}") for n, (a, b, name) in enumerate(given)]


def assigned(
    segments: list[Segment], activity: SideActivity | None, rule: SpeakerRule = RULE
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(text, side, label) of each stretch that is kept, and the codes of the problems."""
    log = ProblemLog("call")
    found: list[Sided] = assign_sides(segments, activity, log, rule=rule, where="c.srt")
    return [(part.segment.text, part.side, part.speaker) for part in found], [row.code for row in log]


TURNS = talking([(0, 4), (8, 12)], [(5, 7), (13, 15)])
NAMED = captions((0, 4, "Bo"), (5, 7, "Al"), (8, 12, "Bo"), (13, 15, "Al"))
MAIN, CALLER = "SPEAKER_MAIN", "SPEAKER_CALLER"


def test_the_rule_of_transcripts_goes_for_captions():
    wanted = [
        ("text 0", "agent", MAIN),
        ("text 1", "caller", CALLER),
        ("text 2", "agent", MAIN),
        ("text 3", "caller", CALLER),
    ]
    assert assigned(NAMED, TURNS, SpeakerRule(agent="Bo")) == (wanted, [])
    called = captions((0, 4, "AGENT"), (5, 7, "Customer"), (8, 12, "AGENT"), (13, 15, "Customer"))
    assert assigned(called, TURNS) == (wanted, [])
    own = SpeakerRule(agent="Bo", main="ME")
    assert {label for _, _, label in assigned(NAMED, TURNS, own)[0]} == {"ME", CALLER}


def test_labels_that_no_rule_knows_go_to_the_side_that_speaks():
    found, codes = assigned(NAMED, TURNS)
    assert [(side, label) for _, side, label in found] == [("agent", MAIN), ("caller", CALLER)] * 2
    assert codes == ["words-side-assumed"]


def test_on_one_channel_two_names_are_nobodys():
    with pytest.raises(CallRefused, match="'Bo', 'Al'") as refused:
        assigned(NAMED, None)
    assert refused.value.code == "words-agent-unknown"
    assert "--agent-label" in str(refused.value)
    found, codes = assigned(NAMED, None, SpeakerRule(agent="Al"))
    assert [label for _, _, label in found] == [CALLER, MAIN] * 2 and not codes


def test_a_third_speaker_is_not_the_agent():
    segments = [*NAMED, *captions((16, 18, "Cy"))]
    found, _ = assigned(segments, TURNS, SpeakerRule(agent="Bo"))
    assert found[-1] == ("text 0", "caller", "Cy")
    assert [label for _, _, label in found[:4]] == [MAIN, "Al"] * 2


def test_captions_of_the_agent_on_the_callers_side_are_refused():
    with pytest.raises(CallRefused, match="6000000 µs") as refused:
        assigned(NAMED, talking([(5, 7), (13, 15)], [(0, 4), (8, 10)]), SpeakerRule(agent="Bo"))
    assert refused.value.code == "words-side-contradicts"


def test_text_without_names_is_the_agents():
    nameless = captions((0, 4, ""), (8, 12, ""))
    for activity in (None, TURNS):
        found, codes = assigned(nameless, activity)
        assert [(side, label) for _, side, label in found] == [("agent", MAIN)] * 2 and not codes
    plain = [Segment("all of it", 0.0, math.inf, "", "line 1")]
    assert assigned(plain, TURNS)[0] == [("all of it", "agent", MAIN)]
    # A call told from the other side: this text is then the caller's.
    assert assigned(plain, TURNS, SpeakerRule(swapped=True))[0] == [("all of it", "caller", CALLER)]


def test_nameless_captions_of_both_go_where_one_side_speaks_and_the_rest_is_reported():
    both = talking([(0, 4), (8, 12), (16, 18)], [(5, 7), (16, 18)])
    found, codes = assigned(captions((0, 4, ""), (5, 7, ""), (16, 18, ""), (19, 20, "")), both)
    assert found == [("text 0", "agent", MAIN), ("text 1", "caller", CALLER)]
    assert codes == ["words-side-assumed", "words-side-unclear", "words-side-unclear"]


def test_a_nameless_caption_among_named_ones_is_never_the_agents_by_default():
    segments = [*NAMED, *captions((19, 20, ""))]
    found, codes = assigned(segments, TURNS, SpeakerRule(agent="Bo"))
    assert len(found) == 4 and "words-side-unclear" in codes
    alone, _ = assigned(segments, None, SpeakerRule(agent="Bo"))
    assert alone[-1][2] == "SPEAKER_UNKNOWN"


def test_the_only_speaker_is_the_agent_unless_the_other_side_speaks():
    one = captions((5, 7, "Narrator"), (13, 15, "Narrator"))
    assert assigned(one, None) == (
        [("text 0", "agent", MAIN), ("text 1", "agent", MAIN)],
        ["words-side-assumed"],
    )
    assert {side for _, side, _ in assigned(one, TURNS)[0]} == {"caller"}


def test_an_exchanged_call_takes_the_other_label():
    turned = talking([(5, 7), (13, 15)], [(0, 4), (8, 12)])
    found, _ = assigned(NAMED, turned, SpeakerRule(agent="Bo", swapped=True))
    assert [(side, label) for _, side, label in found] == [("caller", CALLER), ("agent", MAIN)] * 2


def test_bleed_counts_for_the_louder_side(real_data):
    import soundfile

    pytest.importorskip("silero_vad")
    voice, _ = soundfile.read(real_data / "mono" / "cold_corpus.wav", dtype="float32")
    agent = voice.copy()
    agent[8 * 16_000 :] *= 0.02
    caller = voice.copy()
    caller[: 8 * 16_000] *= 0.02
    found = side_activity(agent, caller)
    assert found.side_of([(1_000_000, 7_500_000)]) == "agent"
    assert found.side_of([(9_000_000, 15_000_000)]) == "caller"
    same = side_activity(voice, voice)
    assert same.side_of([(1_000_000, 15_000_000)]) is None


def test_in_a_single_stream_everybody_is_kept_under_their_own_name():
    wanted = [
        ("text 0", "agent", "Bo"),
        ("text 1", "agent", "Al"),
        ("text 2", "agent", "Bo"),
        ("text 3", "agent", "Al"),
    ]
    assert assigned(NAMED, None, SpeakerRule(main=None)) == (wanted, [])
    mixed = captions((0, 4, "Bo"), (5, 7, ""))
    assert [label for *_, label in assigned(mixed, None, SpeakerRule(main=None))[0]] == [
        "Bo",
        "SPEAKER_UNKNOWN",
    ]
    nameless = captions((0, 4, ""), (5, 7, ""))
    assert [label for *_, label in assigned(nameless, None, SpeakerRule(main=None))[0]] == [MAIN, MAIN]
