"""Which windows of speech are one speaker's, and when one speaker takes over from another. Numbers in and out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.libraries import require

Floats = npt.NDArray[np.floating[Any]]

WARD_DISTANCE: Final = 2.4
"""Two groups of voices further apart than this (Ward's distance of unit vectors) are two speakers. Set on two
30 s excerpts of AMI meetings, with 2 and 4 speakers, and it finds these counts there."""
REFERENCE_WINDOWS: Final = 150
"""Ward's distance grows with the root of the group sizes; beyond so many windows the threshold grows along."""
MAX_WINDOWS: Final = 3_000
MIN_CLUSTER: Final = 3
SWITCH_COST: Final = 1.0
"""What a change of speaker has to gain in summed cosine similarity over steps of 10 ms."""


def speaker_centres(embeddings: Floats, *, count: int | None = None) -> Floats:
    """Unit vectors [k, d] of the speakers that unit vectors [n, d] hold, the most frequent first; k ≥ 1 for n ≥ 1.

    `count` fixes k where it is known. Groups of fewer than 3 windows are passed over, unless nothing else is left.
    Raises MissingLibraryError.
    """
    if len(embeddings) < 2:
        return np.asarray(embeddings, np.float64)
    cluster = require("sklearn.cluster", extra="diarize", needed_for="grouping voices")
    used = embeddings[:: -(-len(embeddings) // MAX_WINDOWS)]
    if count is None:
        distance = WARD_DISTANCE * max(1.0, (len(used) / REFERENCE_WINDOWS) ** 0.5)
        grouping = cluster.AgglomerativeClustering(
            n_clusters=None, distance_threshold=distance, linkage="ward"
        )
    else:
        grouping = cluster.AgglomerativeClustering(n_clusters=min(count, len(used)), linkage="ward")
    labels = grouping.fit_predict(used)
    sizes = np.bincount(labels)
    order = [label for label in np.argsort(-sizes, kind="stable") if sizes[label] >= MIN_CLUSTER]
    chosen = order or [int(sizes.argmax())]
    centres = np.stack([used[labels == label].mean(axis=0) for label in chosen]).astype(np.float64)
    return centres / np.linalg.norm(centres, axis=1, keepdims=True)


def best_path(scores: Floats, switch_cost: float = SWITCH_COST) -> npt.NDArray[np.int64]:
    """The sequence of columns of `scores` [t, k] with the greatest sum, less `switch_cost` for each change."""
    steps, columns = scores.shape
    came_from = np.zeros((steps, columns), np.int64)
    stay = np.arange(columns)
    value = scores[0].astype(np.float64) if steps else np.zeros(columns)
    for step in range(1, steps):
        best = int(value.argmax())
        keeps = value >= value[best] - switch_cost
        came_from[step] = np.where(keeps, stay, best)
        value = np.where(keeps, value, value[best] - switch_cost) + scores[step]
    path = np.zeros(steps, np.int64)
    if steps:
        path[-1] = int(value.argmax())
    for step in range(steps - 1, 0, -1):
        path[step - 1] = came_from[step, path[step]]
    return path
