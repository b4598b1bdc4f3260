"""Memory that was freed, given back to the system: what keeps a long encoding flat."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`, None where the C library has none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


def return_freed_memory() -> None:
    """Let go of the free pages of the heap.

    Small things that outlive a chunk lie scattered among its large activations, so glibc cannot reuse the
    room between them whole, and the heap of a long run grows although little of it is in use.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
