"""How much of one side's voice is heard on the other side's channel: crosstalk of a line, echo of a handset.

A model that hears the agent on the caller's stream learns to answer itself, so the level and the delay of what
comes through are measured in the same pass that checks the sound, in flat memory.
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
"""What the channels are thinned out to, at least: the strongest part of speech, at a quarter of a millisecond."""
FRAME_SAMPLES: Final = 8_192
MAX_DELAY_S: Final = 0.5
BAND_HZ: Final = (150.0, 1_800.0)
"""Without mains hum, which both channels may share, and without what folds over at the thinned rate."""
SPREAD_S: Final = 0.010
"""A path smears a voice over a few milliseconds; what comes this long before and after the strongest arrival counts."""
QUIETEST_DB: Final = -60.0
"""A stretch whose source is weaker holds no voice that could be heard elsewhere."""
MUTED_DB: Final = -80.0
"""A stretch whose other side is weaker was muted and says nothing of the path."""
CLEAR_DB: Final = 12.0
"""By how much the strongest arrival must exceed the usual one to be no coincidence of two voices."""
MIN_STRETCHES: Final = 3
AGREEMENT: Final = 0.5
"""Two halves of the call, taken in turns of two stretches, must each hold so many and show the same path: the product of
both must come to half of the strength of all. Voices that only sound alike for a while fail this."""
_HALVES: Final = 2
WHOLE_STRETCHES: Final = 32
EVERY_LATER: Final = 8
"""A path stays as it is, so after 32 stretches of a voice, over half a minute of it, one stretch in 8 is looked at."""
REPORTED_DB: Final = -30.0
"""Bleed from this level is reported: about as far below a voice as its own weakest sounds."""
_SHRINK: Final = 0.01

Spectrum = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class Bleed:
    """A voice on the other side's channel: its level there against its own channel, and how much later it comes.

    A negative delay means that the two channels began at different moments.
    """

    level_db: float
    delay_ms: float

    @property
    def audible(self) -> bool:
        return self.level_db >= REPORTED_DB


class BleedMeter:
    """Bleed between two channels of one rate, taken from blocks of any sizes as they pass.

    For each direction the averaged cross-spectrum gives the path from one channel to the other, by least
    squares over stretches in which the source is the louder one. Each stretch is weighted by what else is on
    the other channel (1 / its power), so that speech of both at once hardly counts.
    """

    def __init__(self, sample_rate_hz: int) -> None:
        self._frames = PairedFrames(sample_rate_hz, RATE_HZ, frame_samples=FRAME_SAMPLES, reach_s=MAX_DELAY_S)
        self.rate_hz, self._reach = self._frames.rate_hz, self._frames.reach
        self._own, self._hop = self._frames.own, self._frames.hop
        bins = FRAME_SAMPLES // 2 + 1
        self._cross: npt.NDArray[np.complex128] = np.zeros((2, _HALVES, bins), np.complex128)
        self._source = np.zeros((2, _HALVES, bins))
        self._stretches = np.zeros((2, _HALVES), np.int64)
        self._passed = 0

    def update(self, first: Samples, second: Samples) -> None:
        """Take in float32 [n] of both channels; what one has beyond the other is left out."""
        for frame in self._frames.push(first, second):
            self._passed += 1
            sources = [
                source
                for source in (0, 1)
                if self._stretches[source].sum() < WHOLE_STRETCHES or self._passed % EVERY_LATER == 0
            ]
            if sources:
                self._measure(frame, sources)

    def _measure(self, frame: npt.NDArray[np.float32], sources: list[int]) -> None:
        """Take in one stretch [2, FRAME_SAMPLES]: its middle as the source, all of it as what is heard."""
        frame = frame - frame.mean(axis=1, keepdims=True)
        heard = [float(row @ row) / FRAME_SAMPLES for row in frame]
        spoken = [float(row @ row) / self._hop for row in frame[:, self._own]]
        for source in sources:
            other = 1 - source
            loud = spoken[source] > max(heard[other], 10 ** (QUIETEST_DB / 10))
            if not loud or heard[other] < 10 ** (MUTED_DB / 10):
                continue
            middle = np.zeros(FRAME_SAMPLES, np.float32)
            middle[self._own] = frame[source, self._own]
            x, y = np.fft.rfft(np.stack([middle, frame[other]]))
            half = int(self._stretches[source].sum()) // 2 % _HALVES
            self._cross[source, half] += np.conj(x) * y * np.float32(1 / heard[other])
            self._source[source, half] += (np.square(x.real) + np.square(x.imag)) * np.float32(
                1 / heard[other]
            )
            self._stretches[source, half] += 1

    def bleed(self, source: int) -> Bleed | None:
        """What of channel `source` (0 or 1) the other channel holds; None where nothing can be told from chance.

        What has passed so far counts; the last second of a call, which lacks what follows it, does not.
        """
        if self._stretches[source].min() < MIN_STRETCHES:
            return None
        power = self._in_band(self._source[source].sum(axis=0))
        total = power.sum()
        response = _response(self._cross[source].sum(axis=0), power)
        halves = [
            _response(self._cross[source, half], self._in_band(self._source[source, half]))
            for half in range(_HALVES)
        ]
        lags = np.arange(-self._reach, self._reach + 1)
        spread = max(round(SPREAD_S * self.rate_hz), 1)
        ones = np.ones(2 * spread + 1)
        strength = np.square(response[lags])
        around = np.convolve(strength, ones, "same")
        best = int(np.argmax(around))
        usual = float(np.median(around))
        if around[best] <= usual * 10 ** (CLEAR_DB / 10):
            return None
        common = np.convolve(halves[0][lags] * halves[1][lags], ones, "same")
        if common[best] < AGREEMENT * around[best]:
            return None
        low, high = max(best - spread, 0), min(best + spread + 1, len(lags))
        arrival = low + int(np.argmax(strength[low:high]))
        window = np.zeros(FRAME_SAMPLES)
        near = lags[max(arrival - spread, 0) : arrival + spread + 1]
        window[near] = response[near]
        through = float((np.square(np.abs(np.fft.rfft(window))) * power).sum() / total)
        # What chance puts into a window of this width is no bleed.
        level_db = float(to_db(through * (1.0 - usual / float(around[best]))))
        if level_db >= 0:
            return None
        return Bleed(level_db, 1_000.0 * float(lags[arrival]) / self.rate_hz)

    def _in_band(self, power: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        hz = np.arange(FRAME_SAMPLES // 2 + 1) * self.rate_hz / FRAME_SAMPLES
        return np.where((hz >= BAND_HZ[0]) & (hz <= BAND_HZ[1]), power, 0.0)


def _response(cross: Spectrum, power: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Impulse response [FRAME_SAMPLES] of the path by least squares, within the bins that have power."""
    used = power > 0
    floor = _SHRINK * power.sum() / max(np.count_nonzero(used), 1)
    return np.fft.irfft(np.where(used, cross / np.where(used, power + floor, 1.0), 0.0))
