"""Two streams from one channel, RTTM there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import CallRefused
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn, common, intervals, read_rttm, write_rttm
from inkplex_data.speech.diarize.streams import main_speaker, two_streams

turn_lists = st.lists(
    st.builds(
        lambda start, length, name: SpeakerTurn(start, start + length, name),
        st.integers(0, 3_000_000),
        st.integers(1, 900_000),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=8,
)


@given(turn_lists, st.integers(1, 40_000))
def test_streams_add_up_to_the_recording_sample_for_sample(turns, count):
    samples = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    main = main_speaker(turns)
    made = two_streams(samples, 11_025, turns, main)
    assert np.array_equal(made.agent + made.caller, samples)
    assert not np.any((made.agent != 0) & (made.caller != 0))
    assert made.agent.dtype == samples.dtype
    spans = intervals(turns, of=main)
    middle = (spans[:, 0] + spans[:, 1]) // 2 * 11_025 // 1_000_000
    inside = middle[(middle < count) & (middle * 1_000_000 >= spans[:, 0] * 11_025)]
    assert np.array_equal(made.agent[inside], samples[inside])


@given(turn_lists, turn_lists)
def test_common_is_where_both_hold(a, b):
    one, two = intervals(a), intervals(b)
    at = np.arange(0, 4_000_000, 1_777)

    def holds(spans):
        return ((at[:, None] >= spans[:, 0]) & (at[:, None] < spans[:, 1])).any(axis=1)

    assert np.array_equal(holds(common(one, two)), holds(one) & holds(two))


def test_room_tone_fills_the_silent_stream_with_the_quiet_of_the_recording():
    rate_hz = 8_000
    random = np.random.default_rng(1)
    samples = (0.01 * random.standard_normal(4 * rate_hz)).astype(np.float32)
    samples[: 2 * rate_hz] += np.sin(np.arange(2 * rate_hz) * 0.3).astype(np.float32)
    turns = [SpeakerTurn(0, 1_000_000, "a"), SpeakerTurn(1_000_000, 2_000_000, "b")]
    made = two_streams(samples, rate_hz, turns, "a", inactive="room", seed=3)
    assert 0.005 < made.agent[rate_hz:].std() < 0.02
    assert 0.005 < made.caller[:rate_hz].std() < 0.02
    assert np.array_equal(made.agent[:rate_hz], samples[:rate_hz])
    again = two_streams(samples, rate_hz, turns, "a", inactive="room", seed=3)
    assert np.array_equal(made.caller, again.caller)


def test_the_main_speaker_follows_the_rule():
    turns = [SpeakerTurn(0, 10, "a"), SpeakerTurn(10, 40, "b"), SpeakerTurn(40, 45, "c")]
    assert main_speaker(turns, "most") == "b"
    assert main_speaker(turns, "first") == "a"
    assert main_speaker(turns, "c") == "c"
    drawn = {main_speaker(turns, "random", key=str(call)) for call in range(50)}
    assert drawn == {"a", "b", "c"}
    assert main_speaker(turns, "random", seed=5, key="x") == main_speaker(turns, "random", seed=5, key="x")
    with pytest.raises(CallRefused, match="the speakers are a, b, c") as unknown:
        main_speaker(turns, "nobody")
    assert unknown.value.code == "speaker-label-unknown"
    with pytest.raises(CallRefused) as refused:
        main_speaker([])
    assert refused.value.code == "speakers-not-found"


def test_overlap_is_reported():
    turns = [SpeakerTurn(0, 500_000, "a"), SpeakerTurn(400_000, 900_000, "b")]
    made = two_streams(np.ones(1000, np.float32), 1000, turns, "a")
    assert made.overlap.tolist() == [[400_000, 500_000]]


def test_rttm_reads_back(tmp_path):
    turns = [SpeakerTurn(0, 1_234_567, "agent one"), SpeakerTurn(1_000_001, 2_000_000, "b")]
    write_rttm(tmp_path / "my call.rttm", turns, "my call")
    assert read_rttm(tmp_path / "my call.rttm") == [
        SpeakerTurn(0, 1_234_567, "agent_one"),
        SpeakerTurn(1_000_001, 2_000_000, "b"),
    ]
