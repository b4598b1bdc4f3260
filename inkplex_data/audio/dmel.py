"""dMel: audio as Inkling hears it, 20 rows a second of 80 mel coordinates in 16 bins.

Rules: seeds/000, "Native dMel: 100 ms window, 50 ms hop, 80 mel coordinates" (8.3) and, for streams,
"Continuous f_d→16 kHz conversion and 800-sample hops" (8.2). The bins are those of the Inkling feature
extractor and processor of transformers, which is why PyTorch does the transform: a transform in float64
moves about one bin in a million where a quiet band lies between two centres.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.resample import StreamResampler
from inkplex_data.libraries import require

RATE_HZ = 16_000
HOP_SAMPLES = 800
WINDOW_SAMPLES = 1_600
MELS = 80
BINS = 16
LOWEST, HIGHEST = -7.0, 2.0
"""Centres of the first and last bin, in log10 of the mel magnitude."""

_FLOOR = 1e-10
_PCM16_SCALE = 32_768
# Spectra of so many hops are held at a time, 3 MB, however long a piece is.
_BLOCK_HOPS = 256


class DmelStream:
    """dMel of audio that comes in pieces, of any sizes: the rows are those of one pass over the whole.

    The resampler keeps its filter history between pieces, and only complete hops of 800 samples are turned
    into rows; `finish` ends the segment. Where audio is missing, end the segment and go on: the next one
    starts afresh.
    """

    def __init__(self, sample_rate_hz: int = RATE_HZ) -> None:
        """Raises MissingLibraryError where PyTorch is not installed, ValueError for an impossible rate."""
        if sample_rate_hz < 1:
            raise ValueError(f"a sample rate of {sample_rate_hz} Hz cannot be")
        require("torch", extra="memory", needed_for="dMel")
        self.sample_rate_hz = sample_rate_hz
        self._restart()

    def _restart(self) -> None:
        self._resampler = StreamResampler(self.sample_rate_hz, RATE_HZ)
        # The first window is a hop of zeros and the first hop; later ones hold the hop before.
        self._pending = np.zeros(HOP_SAMPLES, np.float32)

    def push(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Rows that `samples` complete: uint8 [k, 80], bins 0–15.

        `samples`: [n], one channel at the stream's rate, floats of full scale 1 or PCM as int16.
        Raises ValueError for another shape or type, and for NaN and infinities.
        """
        return self._rows(self._resampler.push(_as_float(samples)))

    def finish(self) -> npt.NDArray[np.uint8]:
        """The last rows of the segment: flushes the resampler, pads the last hop with zeros once."""
        rows = [self._rows(self._resampler.finish())]
        waiting = len(self._pending) - HOP_SAMPLES
        if waiting:
            rows.append(self._rows(np.zeros(HOP_SAMPLES - waiting, np.float32)))
        self._restart()
        return np.concatenate(rows)

    def _rows(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        self._pending = np.concatenate([self._pending, samples])
        hops = len(self._pending) // HOP_SAMPLES - 1
        rows = [np.empty((0, MELS), np.uint8)]
        for first in range(0, hops, _BLOCK_HOPS):
            last = min(first + _BLOCK_HOPS, hops)
            rows.append(_bins(self._pending[first * HOP_SAMPLES : (last + 1) * HOP_SAMPLES]))
        self._pending = self._pending[hops * HOP_SAMPLES :]
        return np.concatenate(rows)


def dmel(samples: npt.NDArray[Any], sample_rate_hz: int = RATE_HZ) -> npt.NDArray[np.uint8]:
    """dMel of a whole segment [n]: uint8 [T, 80], T = ceil(samples at 16 kHz / 800). Errors as `push`."""
    stream = DmelStream(sample_rate_hz)
    return np.concatenate([stream.push(samples), stream.finish()])


def mel_filters() -> npt.NDArray[np.float32]:
    """Slaney mel filters from 0 to 8,000 Hz with Slaney's norm, for magnitudes of 801 bins: [80, 801]."""
    # Slaney's scale: 3 mel per 200 Hz up to 1,000 Hz, then 27 mel for every factor of 6.4.
    highest_mel = 15 + np.log(RATE_HZ / 2 / 1_000) * 27 / np.log(6.4)
    mels = np.linspace(0, highest_mel, MELS + 2)
    edges_hz = np.where(mels < 15, mels * 200 / 3, 1_000 * np.exp(np.log(6.4) / 27 * (mels - 15)))
    bins_hz = np.linspace(0, RATE_HZ / 2, WINDOW_SAMPLES // 2 + 1)
    rising = (bins_hz - edges_hz[:-2, None]) / np.diff(edges_hz)[:-1, None]
    falling = (edges_hz[2:, None] - bins_hz) / np.diff(edges_hz)[1:, None]
    norm = 2 / (edges_hz[2:] - edges_hz[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * norm[:, None]).astype(np.float32)


def _as_float(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    samples = np.asarray(samples)
    if samples.ndim != 1 or not (samples.dtype.kind == "f" or samples.dtype == np.int16):
        raise ValueError(
            f"dMel takes one channel of floats or int16, not {samples.dtype} of shape {samples.shape}"
        )
    if samples.dtype == np.int16:
        return samples.astype(np.float32) / np.float32(_PCM16_SCALE)
    values = samples.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise ValueError("the samples hold NaN or infinities")
    return values


@cache
def _tensors() -> tuple[Any, Any]:
    """Window float32 [1600] and centres of the bins float32 [16]."""
    import torch

    window = torch.hann_window(WINDOW_SAMPLES, periodic=True, dtype=torch.float32)
    return window, torch.linspace(LOWEST, HIGHEST, BINS, dtype=torch.float64).to(torch.float32)


@cache
def _sparse_filters() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The filters' entries above zero, filter after filter: their bins [n], weights [n], first entries [80]."""
    filters = mel_filters()
    rows, bins = np.nonzero(filters)
    return bins, filters[rows, bins].astype(np.float64), np.searchsorted(rows, np.arange(MELS))


def _bins(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """uint8 [k, 80] for float32 [(k + 1) × 800], k ≥ 1: the windows that begin at each hop but the last."""
    import torch

    window, centres = _tensors()
    spectrum = torch.stft(
        torch.from_numpy(samples),
        WINDOW_SAMPLES,
        hop_length=HOP_SAMPLES,
        win_length=WINDOW_SAMPLES,
        window=window,
        center=False,
        return_complex=True,
    )
    magnitude = torch.view_as_real(spectrum).pow(2).sum(-1).clamp_min(_FLOOR).sqrt().numpy().T
    # Summed filter by filter in float64: how a product of matrices rounds depends on how many rows it
    # has, and a row must not depend on how the audio was cut.
    bins, weights, first = _sparse_filters()
    mel = np.add.reduceat(magnitude[:, bins] * weights, first, axis=1).astype(np.float32)
    log_mel = torch.from_numpy(mel).clamp_min(_FLOOR).log10().clamp(LOWEST, HIGHEST)
    return (log_mel.unsqueeze(-1) - centres).abs().argmin(dim=-1).to(torch.uint8).numpy()
