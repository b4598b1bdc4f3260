"""Any rate to the rate of the grid, by soxr at its very high quality, whole or as a stream.

soxr's stream gives the same samples whatever the sizes of its chunks, and the same as one call over the
whole; only the number of samples needs care. It is always `clock.resampled_samples`: ceil, so that no sound
is cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.clock import SAMPLE_RATE_HZ, resampled_samples

QUALITY = "VHQ"
RESAMPLER = f"soxr {QUALITY}"


class StreamResampler:
    """One channel, chunk by chunk: float32 [n] at `from_hz` in, float32 [m] at `to_hz` out.

    Outputs of `push` and `finish` together have `resampled_samples(total pushed)` samples. Equal rates pass
    through bit for bit.
    """

    def __init__(self, from_hz: int, to_hz: int = SAMPLE_RATE_HZ) -> None:
        self.from_hz, self.to_hz = from_hz, to_hz
        self.samples_in = self.samples_out = 0
        self._stream: Any = None
        if from_hz != to_hz:
            import soxr

            self._stream = soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32", quality=QUALITY)

    def push(self, samples: npt.ArrayLike) -> Samples:
        """Feed samples; the result lags by the filter's delay."""
        chunk = np.ascontiguousarray(samples, np.float32)
        self.samples_in += len(chunk)
        out: Samples = chunk if self._stream is None or not len(chunk) else self._stream.resample_chunk(chunk)
        self.samples_out += len(out)
        return out

    def finish(self) -> Samples:
        """The rest, trimmed or padded with zeros to the exact count. The resampler is used up then."""
        rest = np.zeros(0, np.float32)
        if self._stream is not None and self.samples_in:
            rest = self._stream.resample_chunk(rest, last=True)
        missing = resampled_samples(self.samples_in, self.from_hz, self.to_hz) - self.samples_out
        out = np.zeros(missing, np.float32)
        out[: min(missing, len(rest))] = rest[:missing]
        self.samples_out += missing
        return out


def resample(samples: npt.NDArray[Any], from_hz: int, to_hz: int = SAMPLE_RATE_HZ) -> Samples:
    """A whole waveform [n] or [channels, n] to another rate: float32, ceil(n × to / from) samples.

    Equal rates give the same values. For long files use StreamResampler, which stays flat in memory.
    """
    values = np.asarray(samples, np.float32)
    if values.ndim not in (1, 2):
        raise ValueError(f"samples have shape {values.shape}; expected [n] or [channels, n]")
    if values.ndim == 1:
        stream = StreamResampler(from_hz, to_hz)
        return np.concatenate([stream.push(values), stream.finish()])
    return np.stack([resample(channel, from_hz, to_hz) for channel in values]) if len(values) else values
