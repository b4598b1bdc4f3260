"""How large the states of recordings become, before anybody captures them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.ownership import Request

WIDTH: Final = 4_096
"""Width of a row of Inkling Small."""


@dataclass(frozen=True)
class StatesSize:
    """`tokens` are computed, and stored once a recording. `distinct` of them would remain if recordings that begin with
    the same ids, as those of one system prompt do, had these in common; tokens of media are never taken for the same."""

    recordings: int
    tokens: int
    distinct: int

    def bytes_of(self, tokens: int, width: int, row_bytes: int | None = None) -> int:
        """Bytes of the states of so many tokens; `row_bytes`: of one row, by default bfloat16's."""
        return tokens * len(STATE_ROWS) * (2 * width if row_bytes is None else row_bytes)

    def as_dict(self, width: int) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "recordings": self.recordings,
            "tokens": self.tokens,
            "distinct_tokens": self.distinct,
            "width": width,
            "bytes_a_token": self.bytes_of(1, width),
            "bytes": self.bytes_of(self.tokens, width),
            "shared_bytes": self.bytes_of(self.tokens - self.distinct, width),
            # A code a value and a float32 scale a row.
            "float8_bytes": self.bytes_of(self.tokens, width, width + 4),
        }


def states_size(recordings: Iterable[Iterable[Request]]) -> StatesSize:
    """The size of the recordings' states. The requests of each are those of one recording, owners of prefixes included."""
    contexts: list[NDArray[np.int64]] = []
    count = tokens = 0
    for number, requests in enumerate(recordings):
        count += 1
        own: dict[int, NDArray[np.int64]] = {}
        for request in sorted(requests, key=lambda one: one.call):
            ids = np.where(request.media > 0, -1 - number, request.ids.astype(np.int64))
            owner, prefix = request.cached or (-1, 0)
            own[request.call] = np.concatenate([own[owner][:prefix], ids]) if prefix else ids
            tokens += len(ids)
        contexts += own.values()
    return StatesSize(count, tokens, _distinct(contexts))


def _distinct(contexts: list[NDArray[np.int64]]) -> int:
    """Nodes of the tree of contexts: in sorted order each adds what it does not share with the one before."""
    # As big-endian bytes arrays sort by their ids, those below zero last.
    spelled = sorted(context.astype(">i8").tobytes() for context in contexts)
    shared = sum(_common(one, other) for one, other in pairwise(spelled))
    return sum(map(len, spelled)) // 8 - shared


def _common(one: bytes, other: bytes) -> int:
    size = min(len(one), len(other))
    differ = np.flatnonzero(np.frombuffer(one[:size], np.int64) != np.frombuffer(other[:size], np.int64))
    return int(differ[0]) if len(differ) else size // 8
