"""How wide a band a channel really has. Telephony at 8 kHz that was upsampled to 24 kHz is not 24 kHz speech: a codec
that hears nothing above 4 kHz learns that calls sound muffled (seeds/002, stage 4)."""

from __future__ import annotations

from typing import Final

import numpy as np

from inkplex_data.audio.files.decoders import Samples

TELEPHONE_HZ: Final = (3_000, 5_000)
"""Telephony ends at 3.4 to 4 kHz. Audio at 16 kHz reaches 8, and what ends lower than this is no speech."""
WINDOW_SAMPLES: Final = 2_048
WINDOWS_PER_S: Final = 10
BAND_HZ: Final = 250
BELOW_DB: Final = 60.0
"""A band this far below the loudest one, at its loudest moment, holds nothing but the resampler's leakage."""
QUIETEST_DB: Final = -50.0


class BandMeter:
    """Highest frequency that one channel ever uses, from ten short spectra a second."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz
        self._step = max(sample_rate_hz // WINDOWS_PER_S, 1)
        self._window = np.hanning(WINDOW_SAMPLES)
        self._loudest = np.zeros(WINDOW_SAMPLES // 2 + 1)

    def update(self, block: Samples) -> None:
        """Take in float32 [n]. Windows lie within blocks, so very short blocks are not measured."""
        for start in range(0, len(block) - WINDOW_SAMPLES + 1, self._step):
            part = block[start : start + WINDOW_SAMPLES].astype(np.float64)
            if np.square(part).mean() < 10.0 ** (QUIETEST_DB / 10.0):
                continue
            power = np.square(np.abs(np.fft.rfft(part * self._window)))
            np.maximum(self._loudest, power, out=self._loudest)

    def band_hz(self) -> int | None:
        """Upper edge of the highest band of 250 Hz in use; None where nothing was loud enough to tell."""
        if not self._loudest.any():
            return None
        width = max(round(BAND_HZ * WINDOW_SAMPLES / self._rate_hz), 1)
        count = len(self._loudest) // width
        bands = self._loudest[: count * width].reshape(count, width).mean(axis=1)
        used = np.flatnonzero(bands >= bands.max() * 10.0 ** (-BELOW_DB / 10.0))
        return min(int((used[-1] + 1) * width * self._rate_hz / WINDOW_SAMPLES), self._rate_hz // 2)


def is_telephony(band_hz: int | None) -> bool:
    """Whether a channel that uses frequencies up to `band_hz` has the band of a telephone."""
    return band_hz is not None and TELEPHONE_HZ[0] <= band_hz < TELEPHONE_HZ[1]
