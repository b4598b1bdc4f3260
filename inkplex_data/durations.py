"""Lengths of time as people read them."""

from __future__ import annotations


def hms(seconds: float) -> str:
    """As h:mm:ss, or m:ss below an hour."""
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
