"""Chat messages as the OpenAI interface has them: `[{"role": …, "content": …, "tool_calls": […]}, …]`.

A file holds one list, or dialogues that each hold one under `messages`, `traj`, `trajectory`, `conversation`
or `history`, as a list, a mapping, or a line each. A message's times may stand beside its role: `start` and `end`, or
one moment. What is not understood is counted (`Unread`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_content, read_message
from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    Message,
    TraceFormat,
    Unread,
    bad_message,
    own_id,
)

NAME: Final = "messages"
_LISTS: Final = ("messages", "traj", "trajectory", "conversation", "history")
_MANY: Final = ("simulations", "dialogues", "conversations", "traces", "data", "results")
_IDS: Final = ("id", "dialogue_id", "conversation_id", "task_id")
_DETAIL_FIELDS: Final = ("task_id", "trial", "reward", "model", "seed")


def _find(document: Any, place: str) -> Iterator[Found] | None:
    if _is_list(document) or _list_of(document) is not None:
        return iter([_found(document, place)])
    if isinstance(document, dict):
        for name in _MANY:
            if name in document:
                return _find(document[name], f"{place}/{name}")
        return None
    if isinstance(document, list) and any(_is_list(item) or _list_of(item) is not None for item in document):
        return (_found(item, f"{place}/{index}") for index, item in enumerate(document))
    return None


def _found(data: Any, place: str) -> Found:
    return Found(data, place, own_id(data, *_IDS) if isinstance(data, dict) else "")


def _is_list(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) for item in value)
        and any("role" in item for item in value)
    )


def _list_of(value: object) -> str | None:
    """Under which name `value` holds messages."""
    if not isinstance(value, dict):
        return None
    return next((name for name in _LISTS if _is_list(value.get(name))), None)


def _parse(found: Found) -> Dialogue:
    data, place, unread = found.data, found.place, Unread()
    tools: Any = None
    details = {}
    messages: list[Message] = []
    if isinstance(data, dict):
        name = _list_of(data)
        if name is None:
            raise bad_message(place, f"holds no messages under {', '.join(_LISTS)}", data)
        tools = data.get("tools")
        details = {
            key: data[key] for key in _DETAIL_FIELDS if isinstance(data.get(key), (str, int, float, bool))
        }
        unread.fields(data, {name, "tools", "system", *_IDS, *details})
        messages += _system(data, place, unread)
        data, place = data[name], f"{place}/{name}"
    if not _is_list(data):
        raise bad_message(place, "is not a list of messages", data)
    messages += [read_message(item, f"{place}/{index}", unread) for index, item in enumerate(data)]
    declared = tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
    return Dialogue(tuple(messages), found.place, declared, details, unread.counts)


def _system(data: dict[str, Any], place: str, unread: Unread) -> list[Message]:
    """The system prompt that stands beside the messages, as some interfaces have it."""
    if data.get("system") in (None, "", []):
        return []
    parts, _ = read_content(data["system"], f"{place}/system", unread)
    return [Message("system", f"{place}/system", parts)] if parts else []


FORMAT = TraceFormat(NAME, "chat messages with tool calls", _parse, find=_find)
