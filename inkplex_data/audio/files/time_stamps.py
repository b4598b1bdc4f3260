"""Where decoded frames belong by their time stamps, against where they come by counting samples. Pure.

Recorders of lossy streams store what arrived and stamp it with the time: what did not arrive is a jump of the stamps.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

SHORTEST_S: Final = Fraction(1, 100)
LONGEST_S: Final = Fraction(1, 10)
"""Bounds of the jump that counts. Between them it is one codec frame, since less than a frame cannot be lost, less two
ticks of the container's clock for its rounding."""


class Timeline:
    """Follows the frames of one decoder.

    The first stamp is the beginning, whatever it says: encoder delay and the clocks of live streams differ. Stamps
    that only drift, as those of two clocks do, leave the samples as they are.
    """

    def __init__(self, sample_rate_hz: int, tick_s: Fraction) -> None:
        self._samples_per_tick = tick_s * sample_rate_hz
        self._slack = 2 * self._samples_per_tick
        self._bounds = SHORTEST_S * sample_rate_hz, LONGEST_S * sample_rate_hz
        self._first: int | None = None
        self._origin = 0
        self._stamped_end = self._delivered = self._to_drop = self._last = 0

    def place(self, stamp: int | None, samples: int) -> tuple[int, int]:
        """Take in a frame of `samples` with its stamp in ticks, None where it has none.

        Returns how many samples are missing before it, and how many of its first ones overlap what came before.
        """
        missing = 0
        if stamp is not None:
            at = round(stamp * self._samples_per_tick)
            missing = self._missing_before(at, samples)
            self._stamped_end = at + samples
        else:
            self._stamped_end += samples
        overlap = min(self._to_drop, samples)
        self._to_drop -= overlap
        self._delivered += missing + samples - overlap
        self._last = samples
        return missing, overlap

    def _missing_before(self, at: int, samples: int) -> int:
        """Samples missing before a frame at `at`; what it overlaps is noted to be dropped."""
        if self._first is None:
            self._first, self._origin = at, at - self._delivered
            return 0
        step = at - self._stamped_end
        drift = at - self._origin - self._delivered + self._to_drop
        low, high = self._bounds
        least = min(max(max(samples, self._last) - self._slack, low), high)
        if abs(drift) < least or abs(step) < least / 2:
            return 0
        if drift < 0 and at < self._first + least:
            # Another recording, appended to the first, whose clock begins again.
            self._origin = at - self._delivered
            return 0
        # The step is free of what rounding and jitter have added up to before.
        jump = step if abs(drift - step) < least else drift
        self._to_drop = max(self._to_drop - jump, 0)
        return max(jump, 0)
