"""Logs of a live session: one event after another, each with the time at which the logger saw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import time_us
from inkplex_data.corpus.traces.raw import as_dict, as_list

_TIMES: Final = ("timestamp", "time", "received_at", "logged_at", "ts", "at")
_WRAPPERS: Final = ("event", "message", "data", "payload")
_LISTS: Final = ("events", "messages", "log")


@dataclass(frozen=True)
class Event:
    """An event, and when it was logged, in µs of the trace, None where the log does not say."""

    data: dict[str, Any]
    place: str
    seen_us: int | None


def events_of(document: Any, place: str, *, marked: str) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The events of a document with their places and logged times: one, a list, or such within a wrapper that has the
    time. `marked` is a field that each has."""
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _one(item, f"{place}/{index}", marked)
        return
    data = as_dict(document)
    listed = next((name for name in _LISTS if isinstance(data.get(name), list)), None)
    if listed is not None and marked not in data:
        for index, item in enumerate(as_list(data[listed])):
            yield from _one(item, f"{place}/{listed}/{index}", marked)
    else:
        yield from _one(document, place, marked)


def _one(item: Any, place: str, marked: str) -> Iterator[tuple[dict[str, Any], str, Any]]:
    if not isinstance(item, dict):
        return
    seen = next((item[name] for name in _TIMES if item.get(name) is not None), None)
    inner = next((item[name] for name in _WRAPPERS if marked in as_dict(item.get(name))), None)
    yield (item if marked in item or inner is None else inner), place, seen


def timed(data: dict[str, Any], place: str, seen: Any) -> Event:
    """Raises CallRefused with code trace-time."""
    return Event(data, place, None if seen is None else time_us(seen, place))
