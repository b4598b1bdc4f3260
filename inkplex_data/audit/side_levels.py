"""Whether a call's codes are of the sides that their places say, by the levels that were measured of the sound.

A codec says nothing of loudness that can be read without decoding, but a frame's codes and its level go together: where
codes come again, levels do, and where a side is digitally silent, its codes are those of silence, which stand in every
prefix. So a side's own levels explain its codes better than the other's do, unless the halves are exchanged.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.grid import CODEBOOKS

MINIMUM_FRAMES: Final = 50
"""Calls shorter than this, 4 s, say too little."""
SHIFTS: Final = 64
CERTAIN: Final = 6.0
"""Standard deviations above what chance gives; and the halves as they lie must be below half of it."""


def is_exchanged(codes: NDArray[np.uint16], level: NDArray[np.int8]) -> bool:
    """Whether agent and caller lie in each other's place: codes uint16 [16, F], level int8 [2, F] in dBFS."""
    frames = codes.shape[1]
    if frames < MINIMUM_FRAMES or (level[0] == level[1]).all():
        return False
    sides = codes[:CODEBOOKS], codes[CODEBOOKS:]
    levels = level.astype(np.float64)
    as_they_lie = [_beyond_chance(sides[side], levels[side]) for side in (0, 1)]
    exchanged = [_beyond_chance(sides[side], levels[1 - side]) for side in (0, 1)]
    return sum(exchanged) > CERTAIN and sum(as_they_lie) < CERTAIN / 2


def _beyond_chance(codes: NDArray[np.uint16], level: NDArray[np.float64]) -> float:
    """How much better codes [8, F] explain levels [F] than they explain the same levels moved along in time, in
    standard deviations of the latter."""
    if level.std() == 0:
        return 0.0
    shifts = np.linspace(0, len(level), SHIFTS + 1, endpoint=False).astype(int)
    moved = np.stack([np.roll(level, shift) for shift in shifts])
    explained = np.zeros(len(shifts))
    for book in codes:
        _, group, count = np.unique(book, return_inverse=True, return_counts=True)
        again = count[group] > 1
        if again.sum() < 2:
            continue
        sums = np.stack([np.bincount(group, weights=row, minlength=len(count)) for row in moved])
        explained += (sums[:, count > 1] ** 2 / count[count > 1]).sum(axis=1)
        explained -= (moved[:, again].sum(axis=1) ** 2) / again.sum()
    spread = explained[1:].std()
    return float((explained[0] - explained[1:].mean()) / spread) if spread > 0 else 0.0
