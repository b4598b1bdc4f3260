"""Fitting codebooks is exact integer work."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.speech.codec_fit import fit_codebooks, nearest


def latents(seed: int, frames: int = 150, width: int = 6) -> np.ndarray:
    scale = 10.0 ** np.random.default_rng(seed).uniform(0, 3, size=(frames, 1))
    return np.round(np.random.default_rng(seed + 1).normal(size=(frames, width)) * scale).astype(np.int64)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), vectors=st.integers(1, 20), entries=st.integers(1, 30))
def test_nearest_is_the_first_of_the_nearest(seed: int, vectors: int, entries: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(-4, 5, (vectors, 3)), random.integers(-4, 5, (entries, 3))
    distances = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(nearest(a, b), distances.argmin(axis=1))


def test_residuals_never_grow_and_zero_is_always_an_entry() -> None:
    data = latents(0)
    codebooks = fit_codebooks(data, 3, np.random.Philox(key=1))
    assert codebooks.shape == (3, 2_048, 6)
    residual = data
    for codebook in codebooks:
        assert (codebook == 0).all(axis=1).any()
        energy = (residual**2).sum(axis=1)
        residual = residual - codebook[nearest(residual, codebook)]
        assert ((residual**2).sum(axis=1) <= energy).all()
    # Frames that the first codebook was not made from are served too.
    assert (residual**2).sum() < 0.5 * (data**2).sum()


def test_the_same_random_words_give_the_same_codebooks() -> None:
    data = latents(2)
    one = fit_codebooks(data, 2, np.random.Philox(key=5))
    np.testing.assert_array_equal(one, fit_codebooks(data, 2, np.random.Philox(key=5)))
    assert (one != fit_codebooks(data, 2, np.random.Philox(key=6))).any()


def test_entries_are_mixtures_of_their_own_block() -> None:
    """With one block of one repeated vector, entries lie between that vector and zero."""
    vector = np.array([800, -80, 8, 0])
    codebook = fit_codebooks(np.tile(vector, (8, 1)), 1, np.random.Philox(key=0))[0]
    assert {tuple(entry) for entry in codebook.tolist()} == {
        (800, -80, 8, 0),
        (400, -40, 4, 0),
        (200, -20, 2, 0),
        (100, -10, 1, 0),
        (0, 0, 0, 0),
    }
