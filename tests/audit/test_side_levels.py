"""Agent and caller in each other's place, by their levels: said of no call that is right, and of one that is not."""

from __future__ import annotations

import numpy as np
import pytest

from inkplex_data.audit.side_levels import MINIMUM_FRAMES, is_exchanged


def call(seed: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Two who take turns of some seconds: codes [16, F] that go with what is said and how loud, and levels [2, F]."""
    random = np.random.default_rng(seed)
    turns = np.repeat(random.integers(0, 3, frames), random.integers(10, 60, frames))[:frames]
    level = np.where([turns == 0, turns == 1], -20, -65) + random.integers(-12, 13, (2, frames))
    codes = random.integers(0, 300, (2, 8, frames)) + 60 * (-level // 5)[:, None]
    return codes.reshape(16, frames).astype(np.uint16), level.astype(np.int8)


@pytest.mark.parametrize("seed", range(6))
def test_only_exchanged_halves_are_called_so(seed: int) -> None:
    codes, level = call(seed, 1_500)
    assert not is_exchanged(codes, level)
    assert is_exchanged(np.roll(codes, 8, axis=0), level)
    assert is_exchanged(codes, level[::-1])


@pytest.mark.parametrize("frames", [0, 1, 40, MINIMUM_FRAMES])
def test_what_says_too_little_says_nothing(frames: int) -> None:
    codes, level = call(7, frames)
    random = np.random.default_rng(frames)
    for given in (level, level[::-1], np.full_like(level, -120), random.permutation(level, axis=1)):
        assert not is_exchanged(codes, given)
