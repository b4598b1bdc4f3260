"""LiveKit session reports and chat contexts: items with times, and when users and agent began and stopped speaking.

`created_at` is when an item was there. What a user said was over at `stopped_speaking_at`; with a report, the session's
zero is when its audio recording began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    TraceFormat,
    Unread,
    bad_message,
    own_id,
    time_us,
)
from inkplex_data.corpus.traces.exchanges import joined_assistant
from inkplex_data.corpus.traces.items import chat_of_items
from inkplex_data.corpus.traces.raw import as_dict, as_list

_KINDS: Final = ("message", "function_call", "function_call_output", "agent_handoff", "agent_config_update")
_QUIET: Final = (
    "metrics",
    "hash",
    "extra",
    "transcript_confidence",
    "is_error",
    "interrupted",
    "group_id",
)
_REPORT: Final = frozenset(
    (
        "chat_history",
        "job_id",
        "room_id",
        "room",
        "options",
        "timestamp",
        "audio_recording_path",
        "audio_recording_started_at",
        "started_at",
        "events",
        "usage",
        "items",
    )
)


def _find(document: Any, place: str) -> Iterator[Found] | None:
    items = _items(document)
    if items is not None:
        return iter([Found(document, place, own_id(as_dict(document), "job_id"))])
    if isinstance(document, list) and any(_items(item) is not None for item in document):
        return (
            Found(item, f"{place}/{index}", own_id(as_dict(item), "job_id"))
            for index, item in enumerate(document)
        )
    return None


def _items(document: Any) -> list[Any] | None:
    data = as_dict(document)
    items = as_list(as_dict(data.get("chat_history")).get("items")) or as_list(data.get("items"))
    typed = [item for item in items if as_dict(item).get("type") in _KINDS]
    return items if typed else None


def _parse(found: Found) -> Dialogue:
    items, unread = _items(found.data), Unread()
    if items is None:
        raise bad_message(found.place, "holds no items of a chat context", found.data)
    chat: list[Any] = []
    ends: dict[int, Any] = {}
    for index, item in enumerate(items):
        place = f"{found.place}/items/{index}"
        if not isinstance(item, dict):
            raise bad_message(place, "is not an item", item)
        if item.get("type") in ("agent_handoff", "agent_config_update"):
            unread.field(str(item["type"]))
            continue
        fields = {name: value for name, value in item.items() if name not in (*_QUIET, "created_at")}
        for one in chat_of_items([fields]):
            if not isinstance(one, dict):
                raise bad_message(place, "is not an item", item)
            if item.get("role") == "user":
                ends[len(chat)] = as_dict(item.get("metrics")).get("stopped_speaking_at")
            chat.append({**one, "end": item.get("created_at"), "place": place, "number": len(chat)})
    messages = []
    for one in joined_assistant(chat):
        place, number = one.pop("place"), one.pop("number")
        message = read_message(one, place, unread)
        stopped = ends.get(number)
        messages.append(replace(message, event_us=None if stopped is None else time_us(stopped, place)))
    report = as_dict(found.data)
    unread.fields(report, _REPORT)
    zero = report.get("audio_recording_started_at")
    zero_us = None if zero is None else time_us(zero, f"{found.place}/audio_recording_started_at")
    return Dialogue(tuple(messages), found.place, unread=unread.counts, zero_us=zero_us)


FORMAT = TraceFormat("livekit", "LiveKit session reports", _parse, find=_find, priority=30)
