"""Loudness on the reference tones of EBU Tech 3341, and what normalising promises."""

from __future__ import annotations

import numpy as np
import pytest

from inkplex_data.audio.loudness import VOICE_LUFS, loudness_lufs, normalise_lufs
from inkplex_data.errors import UsageError
from tests.audio.made import noise


def tone(rate: int, level_db: float, seconds: float = 3.0) -> np.ndarray:
    return 10 ** (level_db / 20) * np.sin(2 * np.pi * 1_000 * np.arange(round(rate * seconds)) / rate)


@pytest.mark.parametrize("rate", [24_000, 48_000])
def test_a_kilohertz_tone_in_one_channel_reads_three_below_its_peak(rate: int) -> None:
    assert loudness_lufs(tone(rate, -20.0), rate) == pytest.approx(-23.0, abs=0.1)


@pytest.mark.parametrize("gain", [0.01, 1.0, 5.0])
def test_normalised_sound_measures_the_target_and_keeps_its_shape(gain: float) -> None:
    samples = noise(48_000, 1)[0] * np.float32(gain)
    out = normalise_lufs(samples, 24_000)
    assert out.dtype == np.float32
    assert loudness_lufs(out, 24_000) == pytest.approx(VOICE_LUFS, abs=0.01)
    assert np.corrcoef(out, samples)[0, 1] > 0.999999


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(UsageError, match="silent"):
        normalise_lufs(np.zeros(48_000, np.float32), 24_000)
    with pytest.raises(UsageError, match=r"needs 0\.4 s"):
        normalise_lufs(noise(100, 1)[0], 24_000)
    with pytest.raises(UsageError, match="one channel"):
        loudness_lufs(noise(48_000, 2), 24_000)
