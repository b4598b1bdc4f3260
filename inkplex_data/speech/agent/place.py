"""Who speaks when on the two channels of a call, and on which of them a stretch of text lies. Pure numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import STEP_US, speech_activity
from inkplex_data.audio.speaks_alone import alone_us, clear_side
from inkplex_data.audio.turns import units_of_activity

BLEED_DB: Final = 10.0
"""A channel that is so much weaker than the other one holds the other's voice, not one of its own."""
FIRST_UNIT_US: Final = 250_000
"""What is shorter does not open a call: a click, a breath, a ringing tone cut off."""
CLEAR_US: Final = 250_000
"""A short word, alone on its channel, is the least that tells a side."""


@dataclass(frozen=True)
class Said:
    """A stretch of a transcript: a word, a caption or an utterance."""

    label: str
    start_us: int
    end_us: int
    text: str


@dataclass(frozen=True)
class Channels:
    """Own speech of both channels, bool [2, t] in steps of 10 ms: without what bleeds over from the other one."""

    own: npt.NDArray[np.bool_]

    def first_us(self) -> list[int | None]:
        """Start of each channel's first unit of speech that is one; None where there is none."""
        found: list[int | None] = []
        for row in self.own:
            spoken = units_of_activity(row, STEP_US)
            long = spoken[spoken[:, 1] - spoken[:, 0] >= FIRST_UNIT_US]
            found.append(int(long[0, 0]) if len(long) else None)
        return found

    def alone_us(self, said: Iterable[Said]) -> tuple[int, int]:
        """For how long, within the stretches, each channel speaks while the other does not."""
        return alone_us(self.own, [(one.start_us, one.end_us) for one in said])

    def side_of(self, said: Iterable[Said]) -> int | None:
        """The channel on which the stretches lie; None where that is not clear."""
        return clear_side(self.alone_us(said), least_us=CLEAR_US)


def channels_of_levels(levels_db: Sequence[npt.NDArray[np.float32]]) -> Channels:
    """From the levels of both channels as `audio.activity.LevelMeter` gives them."""
    count = max(len(levels) for levels in levels_db)
    level = np.full((2, count), -np.inf, np.float32)
    active = np.zeros((2, count), np.bool_)
    for side, levels in enumerate(levels_db):
        level[side, : len(levels)] = levels
        active[side, : len(levels)] = speech_activity(levels)
    return Channels(active & ~(active[::-1] & (level[::-1] - BLEED_DB > level)))


def texts_of(
    said: Sequence[Said], channels: Channels, known: dict[str, int] | None = None
) -> tuple[str, str]:
    """The words of each channel, in order of time: by their label where it lies on one side, else by their own place.

    `known` are labels whose channel the transcript names.
    """
    by_label: dict[str, list[Said]] = {}
    for one in said:
        by_label.setdefault(one.label, []).append(one)
    sides: dict[str, int | None] = {label: channels.side_of(own) for label, own in by_label.items()}
    sides |= known or {}
    texts: tuple[list[str], list[str]] = ([], [])
    for one in sorted(said, key=lambda one: one.start_us):
        side = sides[one.label]
        if side is None:
            left, right = channels.alone_us([one])
            side = None if left == right else int(right > left)
        if side is not None:
            texts[side].append(one.text)
    return " ".join(texts[0]), " ".join(texts[1])
