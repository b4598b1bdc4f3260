"""The band that a channel uses, before and after upsampling, and the hook for models that widen it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inkplex_data.audio.band import BandMeter, is_telephony
from inkplex_data.audio.band_extension import bandwidth_extension
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.resample import resample
from inkplex_data.errors import ConfigError


def band(samples: np.ndarray, rate: int) -> int | None:
    meter = BandMeter(rate)
    for start in range(0, len(samples), 100_000):
        meter.update(samples[start : start + 100_000].astype(np.float32))
    return meter.band_hz()


@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100, 48_000])
def test_upsampled_telephony_is_recognised(rate: int) -> None:
    """Seven seconds of noise at 8 kHz, whatever rate they were brought to; the same noise at that rate is not."""
    noise = 0.1 * np.random.default_rng(0).standard_normal(7 * rate)
    found = band(resample(noise[: 7 * 8_000], 8_000, rate), rate)
    assert found is not None and 3_500 < found <= 4_300 and is_telephony(found)
    whole = band(noise, rate)
    assert whole is not None and whole > 0.95 * rate / 2 and not is_telephony(whole)


def test_real_speech(real_data: Path) -> None:
    """Recorded at 24 and at 8 kHz; and the first one through a telephone."""
    wide = open_audio(real_data / "mono" / "input_service.wav")
    samples = np.concatenate([block[0] for block in wide.blocks()])
    assert (band(samples, 24_000) or 0) > 9_000
    assert is_telephony(band(resample(resample(samples, 24_000, 8_000), 8_000), 24_000))
    narrow = open_audio(real_data / "mono" / "commercial_mono.wav")
    assert is_telephony(band(np.concatenate([block[0] for block in narrow.blocks()]), 8_000))


def test_what_is_too_quiet_or_too_short_tells_nothing() -> None:
    noise = np.random.default_rng(0).standard_normal(24_000)
    assert band(1e-4 * noise, 24_000) is None and band(noise[:2_000], 24_000) is None
    assert not is_telephony(None)


def test_an_unknown_extension_is_named() -> None:
    assert bandwidth_extension("resample") is None
    with pytest.raises(ConfigError, match="there is no bandwidth extension 'sr'"):
        bandwidth_extension("sr")
