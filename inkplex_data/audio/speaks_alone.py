"""On which of a call's two channels something is spoken: the one that speaks while the other does not. Pure numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import STEP_US

CLEAR_PART: Final = 0.8
"""A side is clear with four fifths of the speech that one channel has alone."""


def alone_us(own: npt.NDArray[np.bool_], spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """For how long in the spans, µs, each channel speaks alone. `own`: bool [2, t], steps of 10 ms of own speech."""
    found = [0, 0]
    for start, end in spans:
        part = own[:, max(start, 0) // STEP_US : -(-max(end, 0) // STEP_US)]
        for channel in (0, 1):
            found[channel] += int((part[channel] & ~part[1 - channel]).sum()) * STEP_US
    return found[0], found[1]


def clear_side(alone: tuple[int, int], *, least_us: int) -> int | None:
    """The channel, 0 or 1, that has nearly all of it and at least `least_us`; None where neither has."""
    channel = int(alone[1] > alone[0])
    return channel if alone[channel] >= max(least_us, CLEAR_PART * sum(alone)) else None
