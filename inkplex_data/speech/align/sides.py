"""On which side of a two-channel call a stretch is spoken. Numbers in and out but for the speech detector.

A voice that is heard on both sides, because one leaks into the other, counts for the side on which it is louder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import STEP_US
from inkplex_data.audio.call_scan import SIDES, Side
from inkplex_data.audio.levels import to_db
from inkplex_data.audio.speaks_alone import alone_us, clear_side
from inkplex_data.audio.turns import Intervals
from inkplex_data.speech.align.vad import RATE_HZ, speech_intervals

Samples = npt.NDArray[np.float32]

STEP_SAMPLES: Final = RATE_HZ // 100
BLEED_DB: Final = 12.0
"""A side that is so much further below its own speech than the other one holds the other's voice."""
CLEAR_US: Final = 150_000
"""A syllable, alone on its side, is the least that tells one."""


@dataclass(frozen=True)
class SideActivity:
    """Where each side speaks: the intervals of the detector, and bool [t] of 10 ms steps without the other's bleed."""

    speech: dict[Side, Intervals]
    steps: dict[Side, npt.NDArray[np.bool_]]

    def alone_us(self, spans: Iterable[tuple[int, int]]) -> dict[Side, int]:
        """For how long in the spans, µs, each side speaks while the other does not."""
        agent, caller = alone_us(self._own, spans)
        return {"agent": agent, "caller": caller}

    def side_of(self, spans: Iterable[tuple[int, int]]) -> Side | None:
        """The side that speaks in the spans; None where both do, or neither."""
        found = clear_side(alone_us(self._own, spans), least_us=CLEAR_US)
        return None if found is None else SIDES[found]

    @property
    def _own(self) -> npt.NDArray[np.bool_]:
        return np.stack([self.steps[side] for side in SIDES])


def side_activity(agent: Samples, caller: Samples) -> SideActivity:
    """Activity of two channels, float32 [n] each at 16 kHz. Raises MissingLibraryError."""
    count = -(-max(len(agent), len(caller)) // STEP_SAMPLES)
    speech: dict[Side, Intervals] = {}
    active: dict[Side, npt.NDArray[np.bool_]] = {}
    below: dict[Side, npt.NDArray[np.float64]] = {}
    for side, samples in zip(SIDES, (agent, caller), strict=True):
        speech[side] = speech_intervals(samples)
        active[side] = np.zeros(count, np.bool_)
        for start, end in speech[side].tolist():
            active[side][start // STEP_US : -(-end // STEP_US)] = True
        padded = np.pad(samples, (0, count * STEP_SAMPLES - len(samples)))
        level_db = to_db(np.square(padded, dtype=np.float64).reshape(count, STEP_SAMPLES).mean(axis=1))
        loud_db = float(np.percentile(level_db[active[side]], 95)) if active[side].any() else 0.0
        below[side] = level_db - loud_db
    return SideActivity(
        speech,
        {
            "agent": active["agent"] & (~active["caller"] | (below["agent"] > below["caller"] - BLEED_DB)),
            "caller": active["caller"] & (~active["agent"] | (below["caller"] > below["agent"] - BLEED_DB)),
        },
    )
