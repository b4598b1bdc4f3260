"""Requests of random tokens, for tests that capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inkplex_data.corpus.recordings.recording_lines import HeardSpan
from inkplex_data.memory.ownership import Ownership


@dataclass
class Asked:
    """A request of `tokens` text tokens; they and their arrivals follow from its number."""

    call: int
    tokens: int
    cached: tuple[int, int] | None = None
    vocabulary: int = 201_024
    states_path: Path | None = None
    audio: tuple[HeardSpan, ...] = ()
    bytes: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.line = self.call + 2
        self.ids: NDArray[np.int32] = np.random.default_rng(self.call).integers(
            0, self.vocabulary, self.tokens, dtype=np.int32
        )
        self.bytes = [b"x"] * self.tokens
        self.kinds = np.zeros(self.tokens, np.uint8)
        self.media = np.zeros(self.tokens, np.uint8)
        self.special = np.zeros(self.tokens, np.bool_)
        self.arrival_us = np.full(self.tokens, self.call, np.int64)


def context_of(requests: list[Asked], call: int) -> NDArray[np.int32]:
    """Ids of the whole context of a request, its prefix included."""
    ids = {request.call: request.ids for request in requests}
    ownership = Ownership(requests)
    owners = [ownership.owner_of(call, position) for position in range(ownership.context_tokens(call))]
    own = [ids[owner][position - ownership.prefix_tokens(owner)] for position, owner in enumerate(owners)]
    return np.array(own, np.int32)


FORKED = [
    Asked(0, 90),
    Asked(1, 40, cached=(0, 60)),
    Asked(2, 25, cached=(1, 77)),
    Asked(3, 12, cached=(1, 77)),
    Asked(4, 9, cached=(0, 90)),
    Asked(5, 0, cached=(3, 80)),
    Asked(6, 7, cached=(5, 80)),
]
"""Forks in the middle of a request, two from one place, one at an end, one through a request without tokens."""
