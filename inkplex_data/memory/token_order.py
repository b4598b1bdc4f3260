"""The two orders of a recording's tokens (seeds/000, "Current sequence memory", section 3).

Layout order, by (request, position), is the row order of the states and of the stored tokens table.
Arrival order, by (arrival, request, position), defines the window; a token's index in it is its rank.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.problems import recording_refusal

REQUIRED = ("call", "position", "special", "bytes", "arrival_us")


def layout_order(request: NDArray[np.integer], position: NDArray[np.integer]) -> NDArray[np.int64]:
    """Indices that put tokens into layout order; int64 [N].

    Raises RecordingError when two tokens claim the same place, because each is computed once.

    >>> layout_order(request=np.array([1, 0, 0]), position=np.array([0, 1, 0])).tolist()
    [2, 1, 0]
    """
    order = np.lexsort((position, request))
    sorted_request, sorted_position = request[order], position[order]
    same = (sorted_request[1:] == sorted_request[:-1]) & (sorted_position[1:] == sorted_position[:-1])
    if same.any():
        at = int(np.flatnonzero(same)[0])
        raise recording_refusal(
            "recording-duplicate-token",
            f"tokens {order[at]} and {order[at + 1]} both claim request {sorted_request[at]}, "
            f"position {sorted_position[at]}",
        )
    return order.astype(np.int64, copy=False)


def arrival_order(arrival_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows in arrival order; int64 [N]. `arrival_us` is in layout order, so a stable sort settles ties."""
    return np.argsort(arrival_us, kind="stable").astype(np.int64, copy=False)


def arrival_rank(arrival_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of each row in arrival order; int64 [N]. `arrival_us` is in layout order.

    >>> arrival_rank(np.array([5, 3, 5])).tolist()
    [1, 0, 2]
    """
    rank = np.empty(len(arrival_us), np.int64)
    rank[arrival_order(arrival_us)] = np.arange(len(arrival_us))
    return rank


def in_layout_order(tokens: pl.DataFrame) -> pl.DataFrame:
    """The token table sorted into layout order; `tokens` may come in any order.

    Raises ValueError for a missing column and RecordingError for a place that two tokens claim.
    """
    missing = [name for name in REQUIRED if name not in tokens.columns]
    if missing:
        raise ValueError(f"the token table lacks {', '.join(missing)}; it has {', '.join(tokens.columns)}")
    empty = [name for name in ("call", "position", "arrival_us") if tokens[name].null_count()]
    if empty:
        raise ValueError(f"the token table has nulls in {', '.join(empty)}")
    request, position = tokens["call"].to_numpy(), tokens["position"].to_numpy()
    if (
        (request[1:] > request[:-1]) | ((request[1:] == request[:-1]) & (position[1:] > position[:-1]))
    ).all():
        return tokens
    return tokens[layout_order(request, position)]
