"""Where words fall on the frame grid: onsets, room, in-word stretches, speaker changes. Pure array functions.

Part of `inkplex_data.speech.interleave`, which says what the policies and options mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_US, US_PER_S
from inkplex_data.speech.interleave_types import BOS, EOS, Bools, Ints, Overflow, Policy, Rounding


def speaker_changes(speakers: Sequence[str]) -> Bools:
    """bool [W]: the word's speaker differs from that of the word before; the first word always does.

    >>> speaker_changes(["ann", "ann", "bob", "ann"]).tolist()
    [True, False, True, True]
    """
    codes: dict[str, int] = {}
    numbers = np.fromiter((codes.setdefault(speaker, len(codes)) for speaker in speakers), np.int64)
    return np.diff(numbers, prepend=-1) != 0


def speaker_markers(is_main: Bools, changes: Bools) -> Ints:
    """int64 [W]: BOS where the main speaker begins, EOS on the first word after it, 0 elsewhere.

    >>> is_main = np.array([True, True, False, False, True])
    >>> speaker_markers(is_main, np.array([True, False, True, False, True])).tolist()
    [1, 0, 2, 0, 1]
    """
    after_main = np.concatenate([[False], is_main[:-1]])[: len(is_main)]
    return np.where(changes & is_main, BOS, np.where(changes & after_main, EOS, 0))


def frames_of(times_us: Ints, delay_us: int, policy: Policy, rounding: Rounding) -> Ints:
    """0-based frame of each time: the frame it lies in, or for `moshi-paper` the nearest (half to even).

    A frame is 80,000 µs, and frame 0 of the stream is frame 1 of the paper's grid:

    >>> times_us = np.array([159_999, 160_000, 200_000, 280_000])
    >>> frames_of(times_us, 0, "kyutai", "exact").tolist(), frames_of(times_us, 0, "moshi-paper", "exact").tolist()
    ([1, 2, 2, 3], [1, 1, 1, 3])
    """
    if rounding == "kyutai":
        products = (times_us / US_PER_S - delay_us / US_PER_S) * FRAME_RATE_HZ
        return (np.rint(products) - 1 if policy == "moshi-paper" else np.floor(products)).astype(np.int64)
    whole, rest = np.divmod(times_us - delay_us, FRAME_US)
    if policy == "kyutai":
        return whole
    return whole + ((2 * rest > FRAME_US) | ((2 * rest == FRAME_US) & (whole % 2 == 1))) - 1


def positions(onset: Ints, sizes: Ints, frames: int, overflow: Overflow) -> tuple[Ints, Ints, Ints]:
    """First frame of each word, its room until the next word takes over, and that word's onset: int64 [W] each.

    Words with onsets 1, 2 and 6 and three pieces each on 10 frames; with `shift` the second one waits:

    >>> onset, sizes = np.array([1, 2, 6]), np.array([3, 3, 3])
    >>> [part.tolist() for part in positions(onset, sizes, 10, "replace")]
    [[1, 2, 6], [1, 4, 4], [2, 6, 10]]
    >>> [part.tolist() for part in positions(onset, sizes, 10, "shift")]
    [[1, 4, 7], [3, 3, 3], [10, 10, 10]]
    """
    if overflow == "shift":
        ahead = np.cumsum(sizes) - sizes
        # A word starts at its onset or where the word before it ends; unrolled, that is a running maximum.
        first = ahead + np.maximum.accumulate(onset - ahead)
        return first, sizes, np.full_like(onset, frames)
    nxt = np.append(onset[1:], frames)[: len(onset)]
    return onset, np.maximum(nxt - onset, 0), nxt


def blank_frames(delay_us: int, rounding: Rounding) -> int:
    """Frames at the start that have no text input because the text lags the audio.

    >>> [blank_frames(delay_us, "exact") for delay_us in (160_000, -79_999, -160_000)]
    [0, 0, 2]
    """
    if delay_us >= 0:
        return 0
    return int(FRAME_RATE_HZ * -(delay_us / US_PER_S)) if rounding == "kyutai" else -delay_us // FRAME_US


def inside_words(onset: Ints, last: Ints, frames: int) -> Bools:
    """bool [frames]: the frame is not past the last frame of the newest word that has begun.

    >>> inside_words(np.array([1, 4]), np.array([2, 4]), 6).astype(int).tolist()
    [0, 1, 1, 0, 1, 0]
    """
    grid = np.arange(frames)
    newest = np.searchsorted(onset, grid, side="right") - 1
    return grid <= np.append(last, -1)[newest]  # newest −1, before any word, reads the appended −1
