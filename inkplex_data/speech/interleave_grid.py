"""Where words fall on the frame grid: onsets, room, in-word stretches, speaker changes. Pure array functions.

Part of `inkplex_data.speech.interleave`, which says what the policies and options mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_US, US_PER_S
from inkplex_data.speech.interleave_types import BOS, EOS, Bools, Ints, Overflow, Policy, Rounding


def speaker_changes(speakers: Sequence[str]) -> Bools:
    """bool [W]: the word's speaker differs from that of the word before; the first word always does."""
    codes: dict[str, int] = {}
    numbers = np.fromiter((codes.setdefault(speaker, len(codes)) for speaker in speakers), np.int64)
    return np.diff(numbers, prepend=-1) != 0


def speaker_markers(is_main: Bools, changes: Bools) -> Ints:
    """int64 [W]: BOS where the main speaker begins, EOS on the first word after it, 0 elsewhere."""
    after_main = np.concatenate([[False], is_main[:-1]])[: len(is_main)]
    return np.where(changes & is_main, BOS, np.where(changes & after_main, EOS, 0))


def frames_of(times_us: Ints, delay_us: int, policy: Policy, rounding: Rounding) -> Ints:
    """0-based frame of each time: the frame it lies in, or for `moshi-paper` the nearest (half to even)."""
    if rounding == "kyutai":
        products = (times_us / US_PER_S - delay_us / US_PER_S) * FRAME_RATE_HZ
        return (np.rint(products) - 1 if policy == "moshi-paper" else np.floor(products)).astype(np.int64)
    whole, rest = np.divmod(times_us - delay_us, FRAME_US)
    if policy == "kyutai":
        return whole
    return whole + ((2 * rest > FRAME_US) | ((2 * rest == FRAME_US) & (whole % 2 == 1))) - 1


def positions(onset: Ints, sizes: Ints, frames: int, overflow: Overflow) -> tuple[Ints, Ints, Ints]:
    """First frame of each word, its room until the next word takes over, and that word's onset."""
    if overflow == "shift":
        ahead = np.cumsum(sizes) - sizes
        # A word starts at its onset or where the word before it ends; unrolled, that is a running maximum.
        first = ahead + np.maximum.accumulate(onset - ahead)
        return first, sizes, np.full_like(onset, frames)
    nxt = np.append(onset[1:], frames)[: len(onset)]
    return onset, np.maximum(nxt - onset, 0), nxt


def blank_frames(delay_us: int, rounding: Rounding) -> int:
    """Frames at the start that have no text input because the text lags the audio."""
    if delay_us >= 0:
        return 0
    return int(FRAME_RATE_HZ * -(delay_us / US_PER_S)) if rounding == "kyutai" else -delay_us // FRAME_US


def inside_words(onset: Ints, last: Ints, frames: int) -> Bools:
    """bool [frames]: the frame is not past the last frame of the newest word that has begun."""
    grid = np.arange(frames)
    newest = np.searchsorted(onset, grid, side="right") - 1
    return grid <= np.append(last, -1)[newest]  # newest −1, before any word, reads the appended −1
