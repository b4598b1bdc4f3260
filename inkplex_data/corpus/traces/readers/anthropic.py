"""Messages of Anthropic's interface: content blocks of text, thinking, tool use and tool results.

A log has each request's `messages` beside its response (`type: message`), as `request` and `response` or in one object; a
transcript has the messages alone. Tool results stand in user messages and become messages of their own.
"""

from __future__ import annotations

from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import (
    Exchange,
    gather_log,
    logged_bodies,
    session_dialogue,
    tool_call,
)
from inkplex_data.corpus.traces.logged_times import entry_times
from inkplex_data.corpus.traces.raw import as_content, as_dict, as_list, as_text

_BLOCKS: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def _exchange(entry: dict[str, Any], place: str) -> Exchange | None:
    request, response = logged_bodies(entry)
    asked = request.get("messages")
    is_answered = response.get("type") == "message" and isinstance(response.get("content"), list)
    if not isinstance(asked, list) or not (is_answered or _is_messages(asked)):
        return None
    return Exchange(
        place,
        asked,
        [response] if is_answered else [],
        system=_text(request.get("system")),
        tools=[_tool(tool) for tool in as_list(request.get("tools"))],
        id=own_id(response, "id"),
        details={"model": response.get("model", request.get("model"))},
        **entry_times(entry),
    )


def _is_messages(value: Any) -> bool:
    """Whether messages have blocks that only this interface has."""
    return any(
        isinstance(block, dict) and block.get("type") in _BLOCKS
        for item in as_list(value)
        for block in as_list(as_dict(item).get("content"))
        if isinstance(item, dict) and "role" in item
    )


def _text(system: Any) -> Any:
    """A system prompt, which may be blocks."""
    return (
        [{"type": "text", "text": as_text(as_dict(block).get("text"))} for block in system]
        if isinstance(system, list)
        else system
    )


def _tool(tool: Any) -> Any:
    tool = as_dict(tool)
    return {**tool, "parameters": tool.get("input_schema")} if "input_schema" in tool else tool


def _chat(item: Any) -> list[Any]:
    """The chat messages of one message."""
    if not isinstance(item, dict) or not isinstance(item.get("content"), list):
        return [item]
    known = {"content", "stop_reason", "stop_sequence", "usage", "model", "type", "id", "role", "container"}
    others = {name: value for name, value in item.items() if name not in known}
    parts: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    results: list[Any] = []
    for block in item["content"]:
        kind = block.get("type") if isinstance(block, dict) else ""
        if kind == "tool_use":
            calls.append(tool_call(block.get("name"), block.get("input"), block.get("id")))
        elif kind == "thinking":
            thoughts.append(as_text(block.get("thinking")))
        elif kind == "tool_result":
            results.append(_result(block))
        elif kind == "redacted_thinking":
            others["redacted_thinking"] = True
        else:
            parts.append(block)
    if not (parts or calls or thoughts) and results:
        return results
    own = {"role": item.get("role"), "content": parts, **others}
    if calls:
        own["tool_calls"] = calls
    if any(thoughts):
        own["reasoning_content"] = "\n".join(thought for thought in thoughts if thought)
    # What a user says beside results comes after them, as the interface demands.
    return [*results, own]


def _result(block: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in block.items() if name not in ("type", "tool_use_id", "content")}
    return {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": as_content(block.get("content")),
        **others,
    }


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, _chat)


FORMAT = TraceFormat(
    "anthropic", "Anthropic messages", _parse, gather=gather_log(_exchange, _is_messages), priority=15
)
