"""Which frames of a call one sample holds, and the memory of just those frames. No I/O here.

A window is treated as a call whose audio begins at the window's first frame: its start on the session clock
moves by as many frames, the whole prefix goes before it, and `clock.session_us` holds for it unchanged. So its
steps keep their true session times, and the prefix, which stands before the window's first frame, reads the memory
of that moment, as it reads that of the call's start before a whole call
(seeds/000, "Current sequence memory", section 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from inkplex_data.errors import UsageError
from inkplex_data.loader.sample_order import keyed

CONTEXT_FRAMES = 3_000
"""Frames that the released model attends to, prefix included (seeds/000, section 8)."""

Cut = Literal["fixed", "seeded", "whole"]


@dataclass(frozen=True)
class Cutter:
    """Cuts calls into windows that hold every frame once.

    cut: `fixed` cuts every `longest` frames; `seeded` moves the cuts, anew in every pass, without making
    windows more or longer; `whole` leaves calls whole. window_frames: frames of a window at most, without
    prefix. context_frames: frames of window and prefix together at most.
    """

    cut: Cut = "fixed"
    window_frames: int | None = None
    context_frames: int = CONTEXT_FRAMES

    def __post_init__(self) -> None:
        if self.cut not in get_args(Cut):
            raise UsageError(f"calls are cut {', '.join(get_args(Cut))}, not {self.cut!r}")
        if self.window_frames is not None and self.window_frames < 1:
            raise UsageError(f"a window has at least one frame, not {self.window_frames}")
        if self.context_frames < 1:
            raise UsageError(f"a context has at least one frame, not {self.context_frames}")

    def longest(self, prefix_frames: int) -> int:
        """Frames that a window behind such a prefix may have.

        Raises UsageError for a prefix that leaves no room; a prefix is never trimmed.
        """
        room = self.context_frames - prefix_frames
        if room < 1:
            raise UsageError(
                f"a prefix of {prefix_frames:,} frames leaves no room in a context of {self.context_frames:,}",
                next_step="Use a shorter voice sample or role text.",
            )
        return room if self.window_frames is None else min(room, self.window_frames)

    def count(self, frames: int, prefix_frames: int) -> int:
        """Windows of a call of `frames` frames. Raises UsageError as `longest` does."""
        longest = self.longest(prefix_frames)
        return 1 if self.cut == "whole" else max(1, -(-frames // longest))

    def window(self, number: int, frames: int, prefix_frames: int, *key: object) -> tuple[int, int]:
        """Frames [first, stop) of window `number`; `key` decides where `seeded` cuts."""
        windows = self.count(frames, prefix_frames)
        if windows == 1:
            return 0, frames
        longest = self.longest(prefix_frames)
        head = longest
        if self.cut == "seeded":
            # What the last window lacks may be missing from the first one instead, in part or whole.
            slack = windows * longest - frames
            head -= keyed(1, "cut", *key)[0] % (slack + 1)
        first = 0 if number == 0 else head + (number - 1) * longest
        return first, frames if number == windows - 1 else head + number * longest


@dataclass(frozen=True)
class VersionColumns:
    """Versions as columns: row, start, end int32, recency, age uint8, whole bool, all [V]."""

    row: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    recency: NDArray[np.uint8]
    age: NDArray[np.uint8]
    whole: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def empty(cls) -> VersionColumns:
        """No versions."""
        steps, buckets = np.empty(0, np.int32), np.empty(0, np.uint8)
        return cls(steps, steps, steps, buckets, buckets, np.empty(0, np.bool_))


def window_versions(versions: VersionColumns, first: int, stop: int, prefix_frames: int) -> VersionColumns:
    """Call-relative versions, cut to frames [first, stop) and composed with a prefix.

    Step P + i of the result sees what step first + i of the call sees, and the steps before P what `first` sees.
    Versions that no step sees are left out.

    Cut to frames [20, 40) behind a prefix of 5, a version of steps [25, 30) becomes [10, 15), and one of [10, 30)
    becomes [0, 15): frame 20 sees it, so the prefix does. One of [10, 20) is gone.
    """
    start, end = np.maximum(versions.start, first), np.minimum(versions.end, stop)
    seen = start < end
    if not seen.all():
        versions = VersionColumns(*(column[seen] for column in vars(versions).values()))
        start, end = start[seen], end[seen]
    at_first = start == first
    start += np.int32(prefix_frames - first)
    start[at_first] = 0
    end += np.int32(prefix_frames - first)
    return VersionColumns(versions.row, start, end, versions.recency, versions.age, versions.whole)
