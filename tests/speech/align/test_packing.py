"""Windows of speech: nothing lost, times there and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.speech.align.filters import in_speech, repeated, segment_fault
from inkplex_data.speech.align.packing import GAP_US, RATE_HZ, WINDOW_US, pack

lengths = st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 40_000)), max_size=20)


def speech_of(pairs) -> np.ndarray:
    out, at = [], 0
    for gap_ms, length_ms in pairs:
        at += gap_ms * 1000
        out.append((at, at + length_ms * 1000))
        at += length_ms * 1000
    return np.array(out, np.int64).reshape(-1, 2)


@given(lengths)
def test_windows_hold_all_speech_once_and_stay_short(pairs):
    speech = speech_of(pairs)
    windows = pack(speech)
    parts = [tuple(part) for window in windows for part in window.source.tolist()]
    assert sum(end - start for start, end in parts) == int((speech[:, 1] - speech[:, 0]).sum())
    assert parts == sorted(parts)
    for window in windows:
        assert window.end_us <= WINDOW_US
        assert (window.packed[1:, 0] - window.packed[:-1, 1] == GAP_US).all()


@given(lengths.filter(bool), st.data())
def test_times_of_a_window_map_back_to_the_recording(pairs, data):
    window = data.draw(st.sampled_from(pack(speech_of(pairs))))
    stretch = data.draw(st.integers(0, len(window.source) - 1))
    low, high = (int(edge) for edge in window.packed[stretch])
    start = data.draw(st.integers(low, high - 1))
    end = data.draw(st.integers(start + 1, high))
    assert window.stretch_of(start, end) == stretch
    back = window.to_source(start, end, stretch)
    assert back[1] - back[0] == end - start
    assert back[0] - window.source[stretch, 0] == start - low


def test_a_window_holds_the_samples_of_its_stretches():
    samples = np.arange(3 * RATE_HZ, dtype=np.float32) / RATE_HZ
    window = pack(np.array([[500_000, 1_000_000], [2_000_000, 2_250_000]]))[0]
    cut = window.samples(samples)
    assert np.array_equal(cut[: RATE_HZ // 2], samples[RATE_HZ // 2 : RATE_HZ])
    first = int(window.packed[1, 0]) * RATE_HZ // 1_000_000
    assert np.array_equal(
        cut[first : first + RATE_HZ // 4], samples[2 * RATE_HZ : 2 * RATE_HZ + RATE_HZ // 4]
    )
    assert np.abs(cut[RATE_HZ // 2 : first]).max() < 1e-3


def test_loops_are_cut_to_one_round_and_emphasis_stays():
    assert repeated(["no", "no", "no", "no", "no", "no", "yes"]) == [False] + [True] * 5 + [False]
    assert not any(repeated(["no,", "no,", "no", "I", "said", "no"]))
    loop = ["thank", "you", "for", "watching"] * 5
    assert repeated(loop) == [False] * 4 + [True] * 16


def test_segments_without_speech_and_repetitive_ones_are_named():
    assert segment_fault({"no_speech_prob": 0.9, "avg_logprob": -1.4}) == "no speech (0.90)"
    assert segment_fault({"compression_ratio": 3.0}) == "repetition (compression 3.00)"
    assert segment_fault({"no_speech_prob": 0.9, "avg_logprob": -0.2, "compression_ratio": 1.1}) is None


def test_a_word_needs_half_of_itself_in_speech():
    speech = np.array([[0, 100], [200, 300]], np.int64)
    word = TimedWord("a", 50, 150, "x", None, "y")
    assert in_speech(word, speech)
    assert not in_speech(TimedWord("a", 51, 152, "x", None, "y"), speech)
