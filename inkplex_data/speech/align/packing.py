"""Stretches of speech put one behind the other in windows that a transcriber takes whole. Pure but for the noise.

Whisper reads 30 s at a time, at the same cost however little of it is speech, and invents words in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import US_PER_S

RATE_HZ: Final = 16_000
WINDOW_US: Final = 28_000_000
GAP_US: Final = 400_000
"""Silence between two stretches, so that they are heard as two."""


@dataclass(frozen=True)
class Window:
    """Some stretches of a channel, packed. `source` and `packed` are int64 [k, 2] µs, equal in lengths."""

    source: Intervals
    packed: Intervals

    @property
    def end_us(self) -> int:
        return int(self.packed[-1, 1])

    def samples(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The window cut out of float32 [n] at 16 kHz; a faint, always equal noise lies between the stretches."""
        noise = np.random.default_rng(0).standard_normal(self.end_us * RATE_HZ // US_PER_S + 1)
        out = (1e-4 * noise).astype(np.float32)
        for (start, end), (first, _) in zip(self.source, self.packed, strict=True):
            part = samples[start * RATE_HZ // US_PER_S : end * RATE_HZ // US_PER_S]
            place = int(first * RATE_HZ // US_PER_S)
            part = part[: len(out) - place]
            out[place : place + len(part)] = part
        return out

    def stretch_of(self, start_us: int, end_us: int) -> int:
        """Index of the stretch that shares most with [start, end) of the window, else of the nearest one."""
        shared = np.minimum(self.packed[:, 1], end_us) - np.maximum(self.packed[:, 0], start_us)
        return int(shared.argmax())

    def to_source(self, start_us: int, end_us: int, stretch: int) -> tuple[int, int]:
        """[start, end) of the window on the call's clock, clipped to the stretch."""
        low, high = (int(edge) for edge in self.packed[stretch])
        offset = int(self.source[stretch, 0]) - low
        return min(max(start_us, low), high) + offset, min(max(end_us, low), high) + offset


def pack(speech: Intervals, *, window_us: int = WINDOW_US, gap_us: int = GAP_US) -> list[Window]:
    """Windows of at most `window_us` over sorted stretches; a longer one is cut."""
    parts = [
        (first, min(first + window_us, end))
        for start, end in speech.tolist()
        for first in range(start, end, window_us)
    ]
    windows: list[Window] = []
    source: list[tuple[int, int]] = []
    packed: list[tuple[int, int]] = []
    for start, end in parts:
        first = packed[-1][1] + gap_us if packed else 0
        if packed and first + end - start > window_us:
            windows.append(_window(source, packed))
            source, packed, first = [], [], 0
        source.append((start, end))
        packed.append((first, first + end - start))
    if packed:
        windows.append(_window(source, packed))
    return windows


def _window(source: list[tuple[int, int]], packed: list[tuple[int, int]]) -> Window:
    return Window(np.array(source, np.int64).reshape(-1, 2), np.array(packed, np.int64).reshape(-1, 2))
