"""Server-sent events, cut out of a stream of bytes as they become complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.faults import FaultError

MOST_BYTES: Final = 64 << 20
"""Longest event that is kept."""


class EventStream:
    """Takes bytes, gives the JSON objects of the events that they complete."""

    def __init__(self) -> None:
        self._pending = b""

    def push(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The events that end within `data`. What is no JSON object, such as `[DONE]`, is no event."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > MOST_BYTES:
            self._pending = b""
        for line in lines:
            # Engines and services write each event's data as one line.
            if line.startswith(b"data:") and (event := json_object(line[5:])) is not None:
                yield event


def json_object(data: bytes) -> dict[str, Any] | None:
    """`data` as a JSON object, None where it is none."""
    try:
        value = parse_json(data.strip(), half_pairs=True)
    except FaultError:
        return None
    return value if isinstance(value, dict) else None
