"""Whether a call's codes are of the sides that their places say, by the levels that were measured of the sound.

A codec says nothing of loudness that can be read without decoding it, but a frame's codes and its level go together:
where a code comes again, its level does. The other side's levels explain codes too, since people take turns, but less
well than a side's own, unless the halves are exchanged. Half a minute of speech is needed to be certain;
`audit --against` is certain of any call.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.grid import CODEBOOKS

MINIMUM_FRAMES: Final = 250
"""Calls shorter than this, 20 s, say too little."""
SHIFTS: Final = 64
CERTAIN: Final = 8.0
"""By how many standard deviations of chance the exchanged halves must explain more. Real calls of 25 s explain 2 to 7
less, one of four minutes 20."""
RATIO: Final = 1.5
"""And how many times as much."""


def is_exchanged(codes: NDArray[np.uint16], level: NDArray[np.int8]) -> bool:
    """Whether agent and caller lie in each other's place: codes uint16 [16, F], level int8 [2, F] in dBFS."""
    frames = codes.shape[1]
    if frames < MINIMUM_FRAMES or (level[0] == level[1]).all():
        return False
    sides = codes[:CODEBOOKS], codes[CODEBOOKS:]
    levels = level.astype(np.float64)
    as_they_lie = sum(_beyond_chance(sides[side], levels[side]) for side in (0, 1))
    exchanged = sum(_beyond_chance(sides[side], levels[1 - side]) for side in (0, 1))
    return exchanged > max(as_they_lie + CERTAIN, RATIO * as_they_lie)


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
