"""Counts with their noun, and lists of names, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


def counted(number: int, noun: str) -> str:
    """`1 call`, `2,000 calls`: for nouns whose plural takes an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


SHOWN: Final = 8
"""Names that a sentence lists."""


def shown(names: Sequence[str]) -> str:
    """The first few names, and how many more there are: `a, b, c and 92 more`."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
