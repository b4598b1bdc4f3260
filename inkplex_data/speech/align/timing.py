"""Times that a text stream can use: every word long enough, in order, inside its stretch. Pure, integers of µs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

MIN_WORD_US: Final = 60_000
"""The shortest word kept: quick function words of conversation measure some 60 ms."""

Span = tuple[int, int]


def filled(spans: Sequence[Span | None], start_us: int, end_us: int) -> list[Span]:
    """`spans` with each unknown one put between its neighbours, in [start, end]."""
    out: list[Span] = []
    place = 0
    while place < len(spans):
        known = spans[place]
        if known is not None:
            out.append(known)
            place += 1
            continue
        stop = place
        while stop < len(spans) and spans[stop] is None:
            stop += 1
        first = out[-1][1] if out else start_us
        after = spans[stop] if stop < len(spans) else None
        last = max(first, after[0] if after is not None else end_us)
        count = stop - place
        edges = [first + (last - first) * index // count for index in range(count + 1)]
        out += list(itertools.pairwise(edges))
        place = stop
    return out


def lengthened(
    spans: Sequence[Span], start_us: int, end_us: int, *, least_us: int = MIN_WORD_US
) -> list[Span]:
    """`spans`, sorted, each at least `least_us` long, disjoint and in [start, end].

    A short word takes from the silence after it, then from what follows. Where there is no room for all, each
    gets an equal share.
    """
    count = len(spans)
    if not count:
        return []
    least_us = min(least_us, (end_us - start_us) // count)
    out: list[Span] = []
    reached = start_us
    for start, end in spans:
        first = max(start, reached)
        out.append((first, max(end, first + least_us)))
        reached = first + least_us
    limit = end_us
    for index in range(count - 1, -1, -1):
        start, end = out[index]
        last = min(end, limit)
        first = min(start, last - least_us)
        out[index] = (first, last)
        limit = first
    return out
