"""Streaming equals whole, counts are exact, and 24 kHz is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.resample import StreamResampler, resample
from inkplex_data.clock import resampled_samples
from tests.audio.made import noise

RATES = [8_000, 11_025, 12_345, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000]


def streamed(samples: np.ndarray, rate: int, sizes: list[int]) -> np.ndarray:
    stream = StreamResampler(rate)
    ends = np.cumsum(sizes)
    parts = [stream.push(part) for part in np.split(samples, ends[ends < len(samples)])]
    out = np.concatenate([*parts, stream.finish()])
    assert stream.samples_out == len(out) == resampled_samples(len(samples), rate)
    return out


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*RATES, 24_000]), st.integers(0, 9_000), st.lists(st.integers(0, 3_000), max_size=12))
def test_chunks_do_not_matter(rate: int, samples: int, sizes: list[int]) -> None:
    values = noise(samples, 1, seed=samples)[0]
    assert np.array_equal(streamed(values, rate, sizes), streamed(values, rate, []))


@pytest.mark.parametrize("rate", RATES)
def test_streaming_equals_one_call_of_soxr_over_the_whole(rate: int) -> None:
    values = noise(3 * rate + 77, 1, seed=rate)[0]
    whole = soxr.resample(values, rate, 24_000, quality="VHQ")
    ours = streamed(values, rate, [5_000] * 100)
    assert 0 <= len(ours) - len(whole) <= 1  # soxr rounds to the nearest sample, the grid up
    assert np.abs(ours[: len(whole)] - whole).max() < 1e-6
    assert np.array_equal(resample(values, rate), ours)


def test_the_grid_s_rate_passes_bit_for_bit_and_oddities_with_it() -> None:
    values = np.float32([0.1, -0.0, np.nan, 1e-38, 9.0])
    assert resample(values, 24_000).tobytes() == values.tobytes()


def test_a_tone_keeps_its_place_and_level() -> None:
    rate = 8_000
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate).astype(np.float32)
    out = resample(tone, rate)
    expected = np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    assert np.abs(out - expected)[2_400:-2_400].max() < 1e-5


def test_channels_are_resampled_each_on_its_own() -> None:
    pair = noise(1_000, 2)
    both = resample(pair, 16_000)
    assert both.shape == (2, 1_500)
    assert np.array_equal(both[1], resample(pair[1], 16_000))
    with pytest.raises(ValueError, match="shape"):
        resample(np.zeros((1, 1, 1)), 16_000)
