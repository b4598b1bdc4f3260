"""Noise of any length for augmentation: of a colour, or a sound file repeated. 24 kHz; the same seed gives the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.fir import StreamFir
from inkplex_data.audio.resample import StreamResampler
from inkplex_data.clock import SAMPLE_RATE_HZ
from inkplex_data.errors import CallRefused
from inkplex_data.problems import refusal

COLOURS: Final = {"white": 0.0, "pink": 1.0, "brown": 2.0}
"""Colour and the power by which its spectral density falls with frequency."""
BLOCK_SAMPLES: Final = 48_000
_TAPS: Final = 4_096
_LOWEST_HZ: Final = 60.0
_LONGEST_S: Final = 60


def coloured_noise(colour: str, samples: int, random: np.random.Generator) -> Iterator[Samples]:
    """Gaussian noise of about unit RMS: float32 blocks, `samples` in total. Nothing below 60 Hz, which no telephone
    carries and which would make up most of brown noise."""
    fir = StreamFir(_colour_taps(COLOURS[colour]))
    # The filter's own start would be a fade-in.
    fir.push(random.standard_normal(_TAPS, np.float32))
    for start in range(0, samples, BLOCK_SAMPLES):
        yield fir.push(random.standard_normal(min(BLOCK_SAMPLES, samples - start), np.float32))


def _colour_taps(power: float) -> npt.NDArray[np.float64]:
    frequency = np.fft.rfftfreq(_TAPS, 1 / SAMPLE_RATE_HZ)
    response = np.where(frequency < _LOWEST_HZ, 0.0, np.maximum(frequency, _LOWEST_HZ) ** (-power / 2))
    taps = np.roll(np.fft.irfft(response), _TAPS // 2) * np.hanning(_TAPS)
    return taps / np.sqrt(np.square(taps).sum())


def recorded_noise(path: Path, samples: int, *, start: float) -> Iterator[Samples]:
    """A sound file from the part `start` of its length in [0, 1) on, repeated: float32 blocks, `samples` in total.

    Channels are averaged; of a long file the first minute is used. Raises CallRefused (augment-noise-unusable) where
    it cannot be decoded or holds no sound.
    """
    loop = first_minute(path)
    at = int(start * len(loop))
    for done in range(0, samples, BLOCK_SAMPLES):
        count = min(BLOCK_SAMPLES, samples - done)
        yield np.take(loop, np.arange(at + done, at + done + count), mode="wrap")


def first_minute(path: Path) -> Samples:
    """The first minute of a file, one channel at 24 kHz. Raises CallRefused (augment-noise-unusable)."""
    try:
        found = _decoded(path)
    except CallRefused as error:
        raise refusal("augment-noise-unusable", error.what, path) from error
    if not found.any() or not np.isfinite(found).all():
        raise refusal("augment-noise-unusable", "holds no sound", path)
    return found


def _decoded(path: Path) -> Samples:
    source = open_audio(path)
    resampler, pieces = StreamResampler(source.sample_rate_hz), []
    limit = _LONGEST_S * source.sample_rate_hz
    for block in source.blocks():
        pieces.append(resampler.push(block.mean(axis=0)[: limit - resampler.samples_in]))
        if resampler.samples_in >= limit:
            break
    pieces.append(resampler.finish())
    return np.concatenate(pieces)
