"""Loudness by ITU-R BS.1770-4, for voice samples of the prefix (seeds/000, section 9: −24 LUFS)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.errors import UsageError

VOICE_LUFS = -24.0
BLOCK_S = 0.4  # the measure's gating block


def loudness_lufs(samples: npt.NDArray[Any], sample_rate_hz: int) -> float:
    """Integrated loudness of a mono waveform [n]; −inf where every block lies below the gate of −70 LUFS.

    Raises UsageError for less than 0.4 s, the measure's block, and for anything but one channel.
    """
    import pyloudnorm

    values = np.asarray(samples, np.float64)
    if values.ndim != 1:
        raise UsageError(f"loudness is measured on one channel [n], got shape {values.shape}")
    if len(values) < BLOCK_S * sample_rate_hz:
        raise UsageError(
            f"loudness needs {BLOCK_S} s of sound, got {len(values) / sample_rate_hz:.3f} s",
            next_step="Give a longer voice sample.",
        )
    with np.errstate(divide="ignore"):
        return float(pyloudnorm.Meter(sample_rate_hz).integrated_loudness(values))


def normalise_lufs(samples: npt.NDArray[Any], sample_rate_hz: int, target: float = VOICE_LUFS) -> Samples:
    """The waveform [n] scaled to `target` LUFS: float32. One gain, no limiter, as the released recipe does.

    Raises UsageError where there is no sound to measure.
    """
    loudness = loudness_lufs(samples, sample_rate_hz)
    if not math.isfinite(loudness):
        raise UsageError(
            "a silent waveform has no loudness", next_step="Give a voice sample in which somebody speaks."
        )
    gain = 10.0 ** ((target - loudness) / 20.0)
    return (np.asarray(samples, np.float64) * gain).astype(np.float32)
