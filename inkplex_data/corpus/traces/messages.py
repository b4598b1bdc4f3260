"""Chat messages as the OpenAI interface has them: `[{"role": …, "content": …, "tool_calls": […]}, …]`.

A file holds one list, or dialogues that each hold one under `messages`, `traj`, `trajectory`, `conversation`
or `history`, as a list, a mapping, or a line each. A message's time may stand beside its role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    Media,
    Message,
    Part,
    Role,
    ToolCall,
    TraceFormat,
    bad_message,
    own_id,
    time_us,
)

NAME: Final = "messages"
_LISTS: Final = ("messages", "traj", "trajectory", "conversation", "history")
_MANY: Final = ("simulations", "dialogues", "conversations", "traces", "data", "results")
_IDS: Final = ("id", "dialogue_id", "conversation_id", "task_id")
_TIMES: Final = ("timestamp", "at", "time", "created_at", "created")
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_THINKING_PARTS: Final = ("thinking", "reasoning")
_MEDIA_PARTS: Final[dict[str, Media]] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
}
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
    data, place = found.data, found.place
    tools: Any = None
    details = {}
    if isinstance(data, dict):
        name = _list_of(data)
        if name is None:
            raise bad_message(place, f"holds no messages under {', '.join(_LISTS)}", data)
        tools = data.get("tools")
        details = {
            key: data[key] for key in _DETAIL_FIELDS if isinstance(data.get(key), (str, int, float, bool))
        }
        data, place = data[name], f"{place}/{name}"
    if not _is_list(data):
        raise bad_message(place, "is not a list of messages", data)
    messages = tuple(_message(item, f"{place}/{index}") for index, item in enumerate(data))
    declared = tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
    return Dialogue(messages, found.place, declared, details)


def _message(item: dict[str, Any], place: str) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or not role:
        raise bad_message(f"{place}/role", "must name who speaks", role)
    known = _ROLES.get(role, "other")
    time = next((item[name] for name in _TIMES if item.get(name) is not None), None)
    parts, thinking = _content(item.get("content"), f"{place}/content")
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(item.get(name), str) and not thinking:
            thinking = item[name]
    author = item.get("name") if known == "tool" else role
    return Message(
        role=known,
        place=place,
        parts=parts,
        thinking=thinking if known == "assistant" else "",
        calls=_calls(item, place) if known == "assistant" else (),
        name=author if isinstance(author, str) else "",
        call_id=own_id(item, "tool_call_id", "id") if known == "tool" else "",
        at_us=None if time is None else time_us(time, place),
    )


def _content(content: Any, place: str) -> tuple[tuple[Part, ...], str]:
    """The parts of a message, and what of it is thinking."""
    if content is None or content == "":
        return (), ""
    if isinstance(content, str):
        return (Part(content),), ""
    if isinstance(content, dict):
        # Tools that answer with an object.
        return (Part(json.dumps(content, ensure_ascii=False)),), ""
    if not isinstance(content, list):
        raise bad_message(place, "must be text or a list of parts", content)
    parts: list[Part] = []
    thinking = ""
    for index, part in enumerate(content):
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        kind = kind if isinstance(kind, str) else ""
        if isinstance(part, str):
            parts.append(Part(part))
        elif isinstance(part, dict) and kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            parts.append(Part(part["text"]))
        elif isinstance(part, dict) and kind in _MEDIA_PARTS:
            parts.append(Part(media=_MEDIA_PARTS[kind]))
        elif isinstance(part, dict) and kind in _THINKING_PARTS:
            thinking += own_id(part, "thinking", "reasoning", "text")
        else:
            raise bad_message(f"{place}/{index}", "is a part of an unknown kind", part)
    return tuple(part for part in parts if part.text or part.media), thinking


def _calls(item: dict[str, Any], place: str) -> tuple[ToolCall, ...]:
    calls = item.get("tool_calls")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        raise bad_message(f"{place}/tool_calls", "must be a list", calls)
    listed = [(call, f"{place}/tool_calls/{index}") for index, call in enumerate(calls)]
    if item.get("function_call") is not None:
        listed.append(({"function": item["function_call"]}, place))
    return tuple(_call(call, at) for call, at in listed)


def _call(call: Any, place: str) -> ToolCall:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise bad_message(place, "names no function", call)
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(function["name"], arguments, own_id(call, "id"))


FORMAT = TraceFormat(NAME, "chat messages with tool calls", _find, _parse)
