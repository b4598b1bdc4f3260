"""On which side of a two-channel call a stretch is spoken. Numbers in and out but for the speech detector.

A voice that is heard on both sides, because one leaks into the other, counts for the side on which it is louder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.levels import to_db
from inkplex_data.audio.turns import Intervals
from inkplex_data.speech.align.vad import RATE_HZ, speech_intervals

Samples = npt.NDArray[np.float32]
Side = Literal["agent", "caller"]
SIDES: Final[tuple[Side, Side]] = ("agent", "caller")

STEP_US: Final = 10_000
STEP_SAMPLES: Final = RATE_HZ // 100
BLEED_DB: Final = 12.0
"""A side that is so much further below its own speech than the other one holds the other's voice."""
CLEAR_PART: Final = 0.8
CLEAR_US: Final = 150_000
"""A side is clear with four fifths of the speech of one side alone, and a syllable of it at least."""


@dataclass(frozen=True)
class SideActivity:
    """Where each side speaks: the intervals of the detector, and bool [t] of 10 ms steps without the other's bleed."""

    speech: dict[Side, Intervals]
    steps: dict[Side, npt.NDArray[np.bool_]]

    def alone_us(self, spans: Iterable[tuple[int, int]]) -> dict[Side, int]:
        """For how long in the spans, µs, each side speaks while the other does not."""
        found: dict[Side, int] = {"agent": 0, "caller": 0}
        for start, end in spans:
            agent, caller = (
                self.steps[side][max(start, 0) // STEP_US : -(-end // STEP_US)] for side in SIDES
            )
            found["agent"] += int((agent & ~caller).sum()) * STEP_US
            found["caller"] += int((caller & ~agent).sum()) * STEP_US
        return found

    def side_of(self, spans: Iterable[tuple[int, int]]) -> Side | None:
        """The side that speaks in the spans; None where both do, or neither."""
        found = self.alone_us(spans)
        best: Side = "agent" if found["agent"] >= found["caller"] else "caller"
        clear = found[best] >= max(CLEAR_US, CLEAR_PART * sum(found.values()))
        return best if clear else None


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
