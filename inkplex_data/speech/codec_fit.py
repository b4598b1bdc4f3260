"""Residual codebooks from few frames, in whole numbers, so that every machine gets the same ones.

Latents come in as integers (multiples of a step); everything after is exact: integer sums, float64
products of small integers, and random words whose stream NumPy guarantees.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.grid import AUDIO_CARD

Integers = npt.NDArray[np.int64]

FOLD_FRAMES: Final = 8
"""Neighbouring frames sound alike, so codebooks take turns by blocks, not by single frames."""


def fit_codebooks(latents: Integers, levels: int, random: np.random.Philox) -> Integers:
    """Codebooks int64 [levels, 2048, D] of a residual quantizer, fitted to `latents` int64 [n, D].

    Codebook k is made from the residuals, after codebooks 0 … k−1, of frames that none of those was made
    from: a codebook made from its own frames would leave residuals much smaller than unheard speech does,
    and the next codebook would be too fine for it. Every codebook holds the zero vector, so that no level
    ever makes a residual larger, and silence has a code of its own.
    """
    fold = np.arange(len(latents)) // FOLD_FRAMES % levels
    residuals = latents
    codebooks = []
    for level in range(levels):
        codebook = _entries(residuals[fold == level], random)
        residuals = residuals - codebook[nearest(residuals, codebook)]
        codebooks.append(codebook)
    return np.stack(codebooks)


def _entries(residuals: Integers, random: np.random.Philox) -> Integers:
    """2,048 vectors: mixtures of two residuals, drawn by energy, at four levels of loudness, and zero.

    There are fewer frames than entries. Mixtures lie between frames that occur; and loudness varies between
    calls more than within the fitted speech, so entries also come halved, quartered and at an eighth.
    """
    energy = np.cumsum((residuals * residuals).sum(axis=1))
    words = random.random_raw((4, AUDIO_CARD))
    first, second = np.searchsorted(
        energy, (words[:2] % np.uint64(energy[-1])).astype(np.int64), side="right"
    )
    weight = 4 + (words[2] % np.uint64(5)).astype(np.int64)[:, None]
    halvings = (words[3] % np.uint64(4)).astype(np.int64)[:, None]
    mixed = weight * residuals[first] + (8 - weight) * residuals[second]
    entries = (mixed + (4 << halvings)) >> (3 + halvings)
    entries[int(words[2, 0] >> np.uint64(32)) % AUDIO_CARD] = 0
    return entries


def nearest(vectors: Integers, codebook: Integers) -> npt.NDArray[np.intp]:
    """Index of the nearest entry for each vector, the first one on a tie."""
    # Products of integers this small are exact in float64, whatever order a BLAS adds them in.
    products = vectors.astype(np.float64) @ codebook.T.astype(np.float64)
    distances = (codebook * codebook).sum(axis=1) - 2 * products
    return distances.argmin(axis=1)
