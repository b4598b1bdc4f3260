"""Which steps the readers compute together (seeds/000, "Current sequence memory", section 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inkplex_data.grid import PLAN_LIMIT


def plan_chunks(
    start: ArrayLike, end: ArrayLike, *, steps: int, limit: int = PLAN_LIMIT
) -> NDArray[np.int64]:
    """Cut `steps` steps into chunks whose union of visible versions stays within `limit`.

    `start`, `end`: integers [V], half-open intervals of steps, in any order. Greedy from the first step:
    a chunk grows while the union of versions visible in it holds at most `limit`; a step that alone
    needs more is a chunk of its own. Returns int64 [chunks, 3]: first step, end step, size of the union.

    Raises ValueError when the arrays differ in length, `steps` is negative or `limit` is below one.

    Three versions, of which two are visible at every step. At step 2 one goes and another comes:

    >>> plan_chunks([0, 0, 2], [2, 9, 9], steps=9, limit=2).tolist()
    [[0, 2, 2], [2, 9, 2]]
    >>> plan_chunks([0, 0, 2], [2, 9, 9], steps=9, limit=3).tolist()
    [[0, 9, 3]]
    """
    begin, stop = _steps("start", start), _steps("end", end)
    if begin.shape != stop.shape:
        raise ValueError(f"start and end have {len(begin)} and {len(stop)} entries")
    if steps < 0 or limit < 1:
        raise ValueError(f"a plan needs steps ≥ 0 and limit ≥ 1, not {steps} and {limit}")
    if len(begin) and (begin.min() < 0 or stop.max() > steps or (begin >= stop).any()):
        begin, stop = begin.clip(0, steps), stop.clip(0, steps)
        seen = begin < stop
        begin, stop = begin[seen], stop[seen]
    # A version meets [a, b) unless it starts at b or later, or ends by a; it cannot do both.
    begun = np.concatenate([[0], np.cumsum(np.bincount(begin, minlength=steps + 1)[:steps])])
    ended = np.cumsum(np.bincount(stop, minlength=steps + 1))
    chunks = []
    first = 0
    while first < steps:
        last = int(np.searchsorted(begun, limit + ended[first], side="right")) - 1
        last = min(max(last, first + 1), steps)
        chunks.append((first, last, int(begun[last] - ended[first])))
        first = last
    return np.array(chunks, np.int64).reshape(-1, 3)


def _steps(name: str, values: ArrayLike) -> NDArray[np.signedinteger[Any]]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} is a list of whole steps, not {array.dtype} of shape {array.shape}")
    # A copy of half a million steps costs more than all that follows.
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)
