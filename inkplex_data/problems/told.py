"""A long list of problems as a person can read it: some of every kind, and how many more there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

MOST_LINES: Final = 20


def told(lines: Sequence[tuple[str, str]], *, everything: str) -> list[str]:
    """At most twenty of `(kind, line)`, in their order and of every kind if there are no more kinds than that.

    A last line counts by kind those left out; `everything` says where to find them all.
    """
    if len(lines) <= MOST_LINES:
        return [line for _, line in lines]
    seen: Counter[str] = Counter()
    turns = []
    for index, (kind, _) in enumerate(lines):
        turns.append((seen[kind], index))
        seen[kind] += 1
    kept = sorted(index for _, index in sorted(turns)[:MOST_LINES])
    left = seen - Counter(lines[index][0] for index in kept)
    counts = ", ".join(f"{kind} {count:,}" for kind, count in left.most_common())
    more = f"and {left.total():,} more{f' ({counts})' if counts else ''}; {everything}"
    return [*(lines[index][1] for index in kept), more]
