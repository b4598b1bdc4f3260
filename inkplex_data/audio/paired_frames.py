"""Two channels thinned out together and cut into overlapping stretches, from blocks of any sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples


class PairedFrames:
    """Stretches float32 [2, `frame_samples`] at `rate_hz`: what a channel holds in the middle, `own`, may be heard on the
    other one up to `reach` samples earlier or later. The middles follow each other without gaps.

    Samples are averaged in groups to at least `least_hz`, which folds what lies above over, alike on both channels.
    """

    def __init__(self, sample_rate_hz: int, least_hz: int, *, frame_samples: int, reach_s: float) -> None:
        self._thin = max(sample_rate_hz // least_hz, 1)
        self.rate_hz = sample_rate_hz / self._thin
        self.reach = min(int(reach_s * self.rate_hz), frame_samples // 3)
        self.own = slice(self.reach, frame_samples - self.reach)
        self._frame, self.hop = frame_samples, frame_samples - 2 * self.reach
        self._rest = np.zeros((2, 0), np.float32)
        # Silence before the first sample, so that the call's first second is a source like any other.
        self._kept = np.zeros((2, self.reach), np.float32)
        self._mean = np.full(self._thin, 1 / self._thin, np.float32)

    def push(self, first: Samples, second: Samples) -> Iterator[npt.NDArray[np.float32]]:
        """Take in float32 [n] of both channels; what one has beyond the other is left out."""
        n = min(len(first), len(second))
        both = np.stack([first[:n], second[:n]])
        if self._rest.shape[1]:
            both = np.concatenate([self._rest, both], axis=1)
        whole = both.shape[1] - both.shape[1] % self._thin
        self._rest = both[:, whole:].copy()
        # A product with a vector is several times faster than a mean over a short axis.
        thinned = both[:, :whole].reshape(2, -1, self._thin) @ self._mean
        kept = np.concatenate([self._kept, thinned], axis=1)
        start = 0
        while kept.shape[1] - start >= self._frame:
            yield kept[:, start : start + self._frame]
            start += self.hop
        self._kept = kept[:, start:].copy()
