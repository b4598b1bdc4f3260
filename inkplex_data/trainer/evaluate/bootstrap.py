"""Is a difference of two losses more than chance? A paired bootstrap over families, one-sided.

Families are drawn with replacement, because calls of one family are not independent of each other; the two
losses are compared on the same calls, so what makes a call hard cancels out (seeds/000, "Current sequence
memory", section 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inkplex_data.errors import UsageError

RESAMPLES = 10_000
LOWER_PERCENTILE = 5.0
"""The bound that 95% of resampled differences exceed."""

_BLOCK = 1_000
"""Resamples drawn at once; bounds memory at any number of families."""


@dataclass(frozen=True)
class Difference:
    """A loss minus another, in nats per target.

    value: of all calls. lower: the one-sided 95% lower bound; None with fewer than two families, which say
    nothing about other families. families: those with a target.
    """

    value: float
    lower: float | None
    families: int


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    counts: ArrayLike,
    families: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference | None:
    """Mean of `first` minus mean of `second` per target, with its lower bound; None without a target.

    first, second: [C] summed losses of each call in nats; counts: [C] targets behind each sum, the same for
    both; families: the family of each call. Raises UsageError for lengths that differ.
    """
    gaps = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    targets = np.asarray(counts, np.float64)
    if not gaps.shape == targets.shape == (len(families),) or resamples < 1:
        raise UsageError(
            f"a paired bootstrap needs a resample, and as many sums as calls: got {gaps.shape}, "
            f"{targets.shape}, {len(families)} families, {resamples} resamples"
        )
    names, index = np.unique(np.asarray(families, dtype=object).astype(str), return_inverse=True)
    gap, weight = (
        np.bincount(index, weights=values, minlength=len(names)).astype(np.float64)
        for values in (gaps, targets)
    )
    gap, weight = gap[weight > 0], weight[weight > 0]
    if not len(weight):
        return None
    value = float(gap.sum() / weight.sum())
    if len(weight) < 2:
        return Difference(value, None, len(weight))
    means = _resampled(gap, weight, resamples, seed)
    return Difference(value, float(np.percentile(means, LOWER_PERCENTILE)), len(weight))


def _resampled(
    gap: NDArray[np.float64], weight: NDArray[np.float64], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Differences per target of `resamples` draws of families, [resamples]."""
    draw = np.random.default_rng(seed)
    even = np.full(len(gap), 1 / len(gap))
    blocks = []
    for at in range(0, resamples, _BLOCK):
        times = draw.multinomial(len(gap), even, size=min(_BLOCK, resamples - at))
        blocks.append((times @ gap) / (times @ weight))
    return np.concatenate(blocks)
