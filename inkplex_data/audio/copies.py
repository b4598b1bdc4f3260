"""Whether one channel is a copy of the other: later or earlier, at another level, or through a codec.

What separates a copy from a voice that bleeds over is what is not alike: whoever has a channel of their own is heard on
it some time, and then it is not the other's sound. A room that lets a voice through also changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.levels import to_db
from inkplex_data.audio.paired_frames import PairedFrames

RATE_HZ: Final = 4_000
FRAME_SAMPLES: Final = 4_096
MAX_DELAY_S: Final = 0.25
WHOLE_STRETCHES: Final = 64
EVERY_LATER: Final = 8
"""After 64 stretches, half a minute of sound, one in 8 is looked at."""
MIN_STRETCHES: Final = 3
QUIETEST_DB: Final = -60.0
BELOW_LOUDEST_DB: Final = 20.0
"""Weaker stretches are pauses, in which each channel may have a noise of its own."""
ALIKE: Final = 0.975
"""Least median of copies: through Opus at 12 kbit/s 0.982, MP3, AAC and ADPCM 0.99, with noise 20 dB below 0.997. Two
people in one room come to 0.961, a voice that a room returns to 0.6."""
SOMEWHAT_ALIKE: Final = 0.8
SHARE: Final = 0.98
"""Stretches that are alike at least so much, at one delay and one difference in level: all of a copy. A line whose other side speaks for a tenth of
the time, and holds a perfect copy of the first voice otherwise, comes to 0.96, two voices that share the time to 0.67."""
SAME_DELAY_MS: Final = 1.0
SAME_LEVEL_DB: Final = 3.0
WEAKEST_DB: Final = 20.5
"""A copy that is weaker than this, a tenth and its rounding, is taken for a quiet channel with crosstalk."""
_SLOW: Final = np.full(65, 1 / 65, np.float32)
"""Offset and rumble under 60 Hz, which speech has none of and lines have, leave as this mean does."""
_FLOOR: Final = 1e-8
_FINER: Final = 4
"""Delays are found to a quarter of a thinned sample, within which speech turns by no more than a fifth of a radian."""


@dataclass(frozen=True)
class Copy:
    """The second channel against the first: the median likeness (1 is the same), how much later and louder it is."""

    likeness: float
    delay_ms: float
    level_db: float


class CopyMeter:
    """Per stretch of half a second: how alike both channels are at their best delay, that delay, their difference in level."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._frames = PairedFrames(sample_rate_hz, RATE_HZ, frame_samples=FRAME_SAMPLES, reach_s=MAX_DELAY_S)
        self._found: list[tuple[float, float, float, float]] = []
        self._passed = 0

    def update(self, first: Samples, second: Samples) -> None:
        """Take in float32 [n] of both channels; what one has beyond the other is left out."""
        for frame in self._frames.push(first, second):
            self._passed += 1
            if len(self._found) < WHOLE_STRETCHES or self._passed % EVERY_LATER == 0:
                self._measure(frame)

    def _measure(self, frame: npt.NDArray[np.float32]) -> None:
        own, reach = self._frames.own, self._frames.reach
        frame = np.stack([row - np.convolve(row, _SLOW, "same") for row in frame])
        squares = np.square(frame, dtype=np.float64)
        levels = squares[:, own].mean(axis=1)
        # The louder one is looked for on the other, so that the last sound of a late copy has its source too.
        source = int(levels[1] > levels[0])
        if to_db(levels[source]) < QUIETEST_DB:
            return
        middle = np.zeros(FRAME_SAMPLES, np.float32)
        middle[own] = frame[source, own]
        spectrum = np.conj(np.fft.rfft(middle)) * np.fft.rfft(frame[1 - source])
        cross = np.abs(np.fft.irfft(spectrum, _FINER * FRAME_SAMPLES)) * _FINER
        lags = np.arange(-_FINER * reach, _FINER * reach + 1)
        sums = np.concatenate([[0.0], np.cumsum(squares[1 - source])])
        shifts = np.round(lags / _FINER).astype(np.int64)
        heard = np.maximum((sums[own.stop + shifts] - sums[own.start + shifts]) / self._frames.hop, _FLOOR)
        likeness = cross[lags] / self._frames.hop / np.sqrt(heard * levels[source])
        best = int(np.argmax(likeness))
        sign = 1 - 2 * source
        self._found.append(
            (
                min(float(likeness[best]), 1.0),
                sign * float(lags[best]) / _FINER / self._frames.rate_hz,
                sign * float(to_db(heard[best]) - to_db(levels[source])),
                float(to_db(levels[source])),
            )
        )

    def copy(self) -> Copy | None:
        """What makes the second channel a copy of the first; None where it is none, or too little was heard to tell."""
        if not self._found:
            return None
        likeness, delays_s, level_db, loudest_db = np.array(self._found).T
        heard = loudest_db >= loudest_db.max() - BELOW_LOUDEST_DB
        if np.count_nonzero(heard) < MIN_STRETCHES:
            return None
        likeness, delays_s, level_db = likeness[heard], delays_s[heard], level_db[heard]
        found = Copy(*map(float, (np.median(likeness), 1_000 * np.median(delays_s), np.median(level_db))))
        same = (
            (likeness >= SOMEWHAT_ALIKE)
            & (np.abs(1_000 * delays_s - found.delay_ms) <= SAME_DELAY_MS)
            & (np.abs(level_db - found.level_db) <= SAME_LEVEL_DB)
        )
        is_copy = found.likeness >= ALIKE and same.mean() >= SHARE and abs(found.level_db) <= WEAKEST_DB
        return found if is_copy else None
