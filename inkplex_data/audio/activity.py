"""Who speaks when, from levels alone: cheap enough to run beside every encoding, without a model.

`LevelMeter` takes the audio on its way to the codec; `speech_activity` judges the whole call at its end. Where a
trained detector is at hand its intervals serve `turns` just as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.levels import to_db
from inkplex_data.clock import SAMPLE_RATE_HZ

STEP_US: Final = 10_000
STEPS_PER_S: Final = 100

BELOW_PEAK_DB: Final = 35.0
"""Speech swings by some 30 dB between vowels and the weakest fricatives; what is quieter is room or crosstalk."""
ABOVE_FLOOR_DB: Final = 10.0
MIN_RANGE_DB: Final = 15.0
"""A channel whose levels differ by less holds steady noise: speech has pauses, and closures inside its words."""
QUIETEST_DB: Final = -60.0
MIN_SPEECH_STEPS: Final = 5
"""Shorter bursts, under 50 ms, are clicks: no syllable is as short."""
FLOOR_PERCENTILE, PEAK_PERCENTILE = 10.0, 99.0


class LevelMeter:
    """Levels of one channel in steps of 10 ms, taken from chunks of any sizes as they pass.

    Step k begins at sample ⌊k × rate / 100⌋, so that steps keep time at rates that 100 does not divide.
    """

    def __init__(self, sample_rate_hz: int = SAMPLE_RATE_HZ) -> None:
        self._rate_hz = sample_rate_hz
        self._levels: list[npt.NDArray[np.float32]] = []
        self._steps = 0
        self._rest = np.zeros(0, np.float32)

    def watch(self, chunks: Iterable[Samples]) -> Iterator[Samples]:
        """Hand the chunks [n] on, unchanged, and measure them."""
        for chunk in chunks:
            self.push(chunk)
            yield chunk

    def push(self, chunk: Samples) -> None:
        """Measure float32 [n]."""
        joined = np.concatenate([self._rest, chunk]) if len(self._rest) else chunk
        begun = self._steps * self._rate_hz // STEPS_PER_S
        steps = ((begun + len(joined) + 1) * STEPS_PER_S - 1) // self._rate_hz
        edges = np.arange(self._steps, steps + 1) * self._rate_hz // STEPS_PER_S - begun
        whole = int(edges[-1])
        if whole:
            squares = np.square(joined[:whole], dtype=np.float64)
            if self._rate_hz % STEPS_PER_S:
                means = np.add.reduceat(squares, edges[:-1]) / np.diff(edges)
            else:
                means = squares.reshape(steps - self._steps, -1).mean(axis=1)
            self._levels.append(to_db(means).astype(np.float32))
            self._steps = steps
        self._rest = np.array(joined[whole:], np.float32)

    def levels_db(self) -> npt.NDArray[np.float32]:
        """dBFS of every step so far: float32 [ceil(samples × 100 / rate)]; a last part counts its own samples only."""
        last = [to_db([np.square(self._rest, dtype=np.float64).mean()])] if len(self._rest) else []
        return np.concatenate([np.zeros(0, np.float32), *self._levels, *last]).astype(np.float32)


def speech_threshold_db(levels_db: npt.NDArray[np.float32]) -> float:
    """The level from which a step counts as speech; +inf where the channel holds none.

    With the 10th percentile of the levels as the floor and the 99th as the peak, it is the highest of: 35 dB
    below the peak; 10 dB above the floor, but at most 10 dB below the peak; −60 dBFS. A range of less
    than 15 dB between floor and peak is steady noise, and so is a peak under −60 dBFS.
    """
    if not len(levels_db):
        return float("inf")
    floor, peak = (float(level) for level in np.percentile(levels_db, (FLOOR_PERCENTILE, PEAK_PERCENTILE)))
    if peak - floor < MIN_RANGE_DB or peak < QUIETEST_DB:
        return float("inf")
    return max(peak - BELOW_PEAK_DB, min(floor + ABOVE_FLOOR_DB, peak - ABOVE_FLOOR_DB), QUIETEST_DB)


def speech_activity(levels_db: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Whether each step of 10 ms holds speech: bool, shaped as `levels_db`. Bursts under 50 ms do not."""
    active = levels_db >= speech_threshold_db(levels_db)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8)))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start < MIN_SPEECH_STEPS:
            active[start:end] = False
    return active
