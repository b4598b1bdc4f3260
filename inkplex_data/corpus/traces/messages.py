"""Chat messages as the OpenAI interface has them: `[{"role": …, "content": …, "tool_calls": […]}, …]`.

A file holds one list, or dialogues that each hold one under `messages`, `traj`, `trajectory`, `conversation`
or `history`, as a list, a mapping, or a line each. A message's times may stand beside its role: `start` and `end`, or
one moment. What is not understood is counted (`Unread`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
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
    Unread,
    bad_message,
    own_id,
    time_us,
)
from inkplex_data.problems import refusal

NAME: Final = "messages"
_LISTS: Final = ("messages", "traj", "trajectory", "conversation", "history")
_MANY: Final = ("simulations", "dialogues", "conversations", "traces", "data", "results")
_IDS: Final = ("id", "dialogue_id", "conversation_id", "task_id")
_TIMES: Final = ("timestamp", "at", "time", "created_at", "created")
_STARTS: Final = ("start", "start_s", "start_time", "started_at")
_ENDS: Final = ("end", "end_s", "end_time", "ended_at", "completed_at", "finished_at")
_TEXTS: Final = ("content", "text", "transcript")
_THINKING: Final = ("reasoning_content", "reasoning", "thinking")
_MESSAGE_FIELDS: Final = frozenset(
    (
        *_TIMES,
        *_STARTS,
        *_ENDS,
        *_TEXTS,
        *_THINKING,
        "role",
        "name",
        "id",
        "type",
        "tool_calls",
        "tool_call_id",
        "function_call",
    )
)
_THOUGHT: Final = re.compile(r"<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "customer": "user",
    "caller": "user",
    "assistant": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "bot": "assistant",
    "ai": "assistant",
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
    messages += [_message(item, f"{place}/{index}", unread) for index, item in enumerate(data)]
    declared = tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
    return Dialogue(tuple(messages), found.place, declared, details, unread.counts)


def _system(data: dict[str, Any], place: str, unread: Unread) -> list[Message]:
    """The system prompt that stands beside the messages, as some interfaces have it."""
    if data.get("system") in (None, "", []):
        return []
    parts, _ = _content(data["system"], f"{place}/system", unread)
    return [Message("system", f"{place}/system", parts)] if parts else []


def _message(item: dict[str, Any], place: str, unread: Unread) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or not role:
        raise bad_message(f"{place}/role", "must name who speaks", role)
    known = _ROLES.get(role.lower(), "other")
    if known == "other":
        unread.role(role)
    unread.fields(item, _MESSAGE_FIELDS)
    texts = [name for name in _TEXTS if item.get(name) not in (None, "")]
    for name in texts[1:]:
        unread.field(name)
    text = texts[0] if texts else "content"
    parts, thought = _content(item.get(text), f"{place}/{text}", unread)
    thoughts = [thought] if thought else []
    is_assistant = known == "assistant"
    if is_assistant:
        parts, spans = _apart(parts)
        thoughts += spans
    for name in _THINKING:
        if isinstance(item.get(name), str) and item[name].strip():
            thoughts.append(item[name])
    calls = _calls(item, place, unread) if is_assistant else ()
    if not is_assistant:
        unread.fields(
            {"thinking": thoughts, **{name: item.get(name) for name in ("tool_calls", "function_call")}}, ()
        )
    author = item.get("name") if known == "tool" else role
    starts_us, at_us, moment_us = _times(item, place)
    return Message(
        role=known,
        place=place,
        parts=parts,
        # One thought may stand under several names.
        thinking="\n".join(dict.fromkeys(thoughts)) if is_assistant else "",
        calls=calls,
        name=author if isinstance(author, str) else "",
        call_id=own_id(item, "tool_call_id", "id") if known == "tool" else "",
        starts_us=starts_us,
        at_us=at_us,
        moment_us=moment_us,
    )


def _times(item: dict[str, Any], place: str) -> tuple[int | None, int | None, int | None]:
    """Beginning, end, and a moment that may be either, in µs of the trace. Raises CallRefused with code trace-time."""
    start, end, moment = (
        next((item[name] for name in names if item.get(name) is not None), None)
        for names in (_STARTS, _ENDS, _TIMES)
    )
    match moment:
        case {"start": first, "end": last, **others} if not others:
            start, end, moment = first, last, None
        case [first, last]:
            start, end, moment = first, last, None
    starts_us, at_us, moment_us = (
        None if value is None else time_us(value, place) for value in (start, end, moment)
    )
    if starts_us is not None and at_us is not None and at_us < starts_us:
        raise refusal("trace-time", f"{place} ends at {at_us} µs, before its start at {starts_us} µs")
    return starts_us, at_us, moment_us


def _apart(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], list[str]]:
    """The parts without `<think>` spans, and these. A template that opens the span itself leaves only its end."""
    kept, thoughts = [], []
    for part in parts:
        text = part.text
        before, end, _ = text.partition("</think>")
        if end and "<think>" not in before:
            text = f"<think>{text}"
        thoughts += [thought.strip() for thought in _THOUGHT.findall(text)]
        kept.append(replace(part, text=_THOUGHT.sub("", text)))
    return tuple(part for part in kept if part.text or part.media), [one for one in thoughts if one]


def _content(content: Any, place: str, unread: Unread) -> tuple[tuple[Part, ...], str]:
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
        if isinstance(part, dict):
            unread.fields(part, {"type", "text", kind, *_THINKING_PARTS}, "content.")
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


def _calls(item: dict[str, Any], place: str, unread: Unread) -> tuple[ToolCall, ...]:
    calls = item.get("tool_calls")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        raise bad_message(f"{place}/tool_calls", "must be a list", calls)
    listed = [(call, f"{place}/tool_calls/{index}") for index, call in enumerate(calls)]
    if item.get("function_call") is not None:
        listed.append(({"function": item["function_call"]}, place))
    return tuple(_call(call, at, unread) for call, at in listed)


def _call(call: Any, place: str, unread: Unread) -> ToolCall:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise bad_message(place, "names no function", call)
    unread.fields(call, {"id", "type", "index", "function", "name", "arguments"}, "tool_calls.")
    if function is not call:
        unread.fields(function, {"name", "arguments"}, "tool_calls.function.")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(function["name"], arguments, own_id(call, "id"))


FORMAT = TraceFormat(NAME, "chat messages with tool calls", _find, _parse)
