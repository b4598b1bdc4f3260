"""Causal FIR filtering of a stream, block by block, in flat memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples


class StreamFir:
    """Convolution with `taps` [t]: as many samples come out as go in, and the tail beyond the end is left out.

    Blocks of the same sizes give the same bits; other sizes differ by rounding.
    """

    def __init__(self, taps: npt.ArrayLike) -> None:
        self._taps = np.asarray(taps, np.float64)
        self._tail = np.zeros(len(self._taps) - 1)

    def push(self, block: Samples) -> Samples:
        """float32 [n] in, float32 [n] out."""
        size = len(block) + len(self._taps) - 1
        length = 1 << (size - 1).bit_length()
        whole = np.fft.irfft(np.fft.rfft(block, length) * np.fft.rfft(self._taps, length), length)[:size]
        whole[: len(self._tail)] += self._tail
        self._tail = whole[len(block) :].copy()
        return whole[: len(block)].astype(np.float32)


class StreamDelay:
    """The stream `samples` later: zeros first, and the last samples never come out."""

    def __init__(self, samples: int) -> None:
        self._held = np.zeros(samples, np.float32)

    def push(self, block: Samples) -> Samples:
        """float32 [n] in, float32 [n] out."""
        joined = np.concatenate([self._held, block])
        self._held = joined[len(block) :]
        return joined[: len(block)]
