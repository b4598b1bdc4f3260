"""Which stretches of which request are computed when, and which caches are kept for whom. Pure.

Requests are computed in layout order, so every prefix has been computed before a request goes on from it
(`Ownership` refuses anything else). A cache that later requests need is kept at exactly the position where
they leave, and given away to the last of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Final

from inkplex_data.errors import UsageError
from inkplex_data.memory.ownership import Ownership

MOST_CHUNK_TOKENS: Final = 8_192
"""A longer chunk is no faster: every expert has work already."""
SCORE_BYTES: Final = 16
"""Memory that one score of one head takes while a block's attention is computed: bias, mask and their copies."""


@dataclass(frozen=True)
class ChunkRule:
    """How a context is cut into the chunks of a prefill.

    A chunk has `chunk_tokens` tokens while attention's scores, one for each token of the chunk and each
    position of the context so far, are at most `most_scores`, or 3 × chunk_tokens² where that is None; then fewer, so
    that working memory stays flat while the context grows. It never has less than a sixteenth: a forward pass costs
    something by itself. Which experts a bfloat16 model takes depends on the cut, so the rule belongs to the identity of
    what was captured.
    """

    chunk_tokens: int
    most_scores: int | None = None

    def __post_init__(self) -> None:
        if self.chunk_tokens < 1:
            raise UsageError(f"a chunk has at least one token, not {self.chunk_tokens}")

    @classmethod
    def of(cls, given: int | ChunkRule) -> ChunkRule:
        """A rule, or the one of chunks of so many tokens."""
        return given if isinstance(given, ChunkRule) else cls(given)

    @classmethod
    def fitting(cls, room_bytes: int, heads: int) -> ChunkRule:
        """The largest chunks whose attention takes at most `room_bytes` in a block of `heads` heads.

        Both numbers are powers of two, so that a little more or less memory does not change them.
        """
        scores = _power_of_two(room_bytes // (heads * SCORE_BYTES))
        return cls(min(MOST_CHUNK_TOKENS, _power_of_two(isqrt(scores))), scores)

    @property
    def scores(self) -> int:
        return self.most_scores or 3 * self.chunk_tokens**2

    @property
    def smallest(self) -> int:
        return max(1, self.chunk_tokens // 16)

    def size(self, start: int) -> int:
        """Tokens of the chunk that begins at position `start`: the most for which size × (start + size) fits."""
        fitting = (isqrt(start * start + 4 * self.scores) - start) // 2
        return min(self.chunk_tokens, max(self.smallest, fitting))

    def cut(self, start: int, stop: int, marks: Iterable[int] = ()) -> tuple[tuple[int, int], ...]:
        """Positions [start, stop) as chunks (first, end). A chunk ends at every position of `marks`."""
        chunks = []
        edges = sorted({mark for mark in marks if start < mark < stop} | {stop})
        for edge in edges:
            while start < edge:
                end = min(start + self.size(start), edge)
                chunks.append((start, end))
                start = end
        return tuple(chunks)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `store.json`."""
        return {"chunk_tokens": self.chunk_tokens, "scores": self.scores, "smallest": self.smallest}


def _power_of_two(limit: int) -> int:
    return 1 << (max(1, limit).bit_length() - 1)


@dataclass(frozen=True)
class Fork:
    """A cache as it was after `position` tokens of the context of request `number`, which computed the last."""

    number: int
    position: int


@dataclass(frozen=True)
class RequestPlan:
    """One request to compute.

    `fork` is the cache it goes on from, None where its context begins with it; `last` says that nobody
    needs that cache afterwards. `chunks` cover the request's own positions. `keep` are positions after
    which the cache is kept for later requests; each ends a chunk. Without `with_cache` it is one plain forward pass,
    which rounds otherwise than one into an empty cache.
    """

    number: int
    fork: Fork | None
    last: bool
    chunks: tuple[tuple[int, int], ...]
    keep: frozenset[int]
    with_cache: bool


def plan_capture(ownership: Ownership, rule: ChunkRule) -> list[RequestPlan]:
    """The requests that computed tokens, in layout order."""
    forks: dict[int, Fork | None] = {}
    for number in ownership.numbers:
        prefix = ownership.prefix_tokens(number)
        if prefix < ownership.context_tokens(number):
            forks[number] = Fork(ownership.owner_of(number, prefix - 1), prefix) if prefix else None
    last_user = {fork: number for number, fork in forks.items() if fork is not None}
    keep: dict[int, set[int]] = {}
    for left in last_user:
        keep.setdefault(left.number, set()).add(left.position)
    plans = []
    for number, fork in forks.items():
        kept = keep.get(number, set())
        start, stop = ownership.prefix_tokens(number), ownership.context_tokens(number)
        chunks = rule.cut(start, stop, kept)
        is_last = fork is not None and last_user[fork] == number
        with_cache = fork is not None or bool(kept) or len(chunks) > 1
        plans.append(RequestPlan(number, fork, is_last, chunks, frozenset(kept), with_cache))
    return plans


def without_done(plans: Sequence[RequestPlan], done: Collection[int]) -> list[RequestPlan]:
    """What is left of a plan whose requests `done` have their states: of those only what others go on from is computed
    again, in the same chunks, for the cache alone."""
    left: list[RequestPlan] = []
    wanted: dict[int, set[int]] = {}
    forks: set[Fork] = set()
    for plan in reversed(plans):
        keep = frozenset(wanted.get(plan.number, ()))
        if plan.number in done and not keep:
            continue
        end = max(keep) if plan.number in done else plan.chunks[-1][1]
        chunks = tuple(chunk for chunk in plan.chunks if chunk[1] <= end)
        left.append(
            replace(plan, last=plan.fork is not None and plan.fork not in forks, chunks=chunks, keep=keep)
        )
        if plan.fork is not None:
            forks.add(plan.fork)
            wanted.setdefault(plan.fork.number, set()).add(plan.fork.position)
    return left[::-1]
