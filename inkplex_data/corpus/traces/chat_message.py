"""One chat message as the OpenAI interface has it: `{"role": …, "content": …, "tool_calls": […]}`.

Other interfaces' messages are put into this form by their readers and read here, so that roles, parts, thinking and times
mean one thing. A message's times may stand beside its role: `start` and `end`, or one moment. What is not understood is
counted (`Unread`).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import (
    Media,
    Message,
    Part,
    Role,
    ToolCall,
    Unread,
    bad_message,
    own_id,
    time_us,
)
from inkplex_data.problems import refusal

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


def read_message(item: dict[str, Any], place: str, unread: Unread) -> Message:
    """The message at `place`. Raises CallRefused with code trace-message or trace-time."""
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
    parts, thought = read_content(item.get(text), f"{place}/{text}", unread)
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
    starts_us, at_us, moment_us = message_times(item, place)
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


def message_times(item: dict[str, Any], place: str) -> tuple[int | None, int | None, int | None]:
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


def read_content(content: Any, place: str, unread: Unread) -> tuple[tuple[Part, ...], str]:
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
