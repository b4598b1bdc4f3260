"""Items of a response or a live session: messages, reasoning, function calls and their outputs, each on its own.

OpenAI's Responses and Realtime interfaces and LiveKit's chat context share the form. What the assistant does in a row is
one answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from inkplex_data.corpus.traces.exchanges import joined_assistant, tool_call
from inkplex_data.corpus.traces.raw import as_content, as_dict, as_list, as_text

_TEXTS: Final = ("input_text", "output_text", "text", "refusal")
_TRANSCRIPTS: Final = ("output_audio", "audio", "input_audio")
_KNOWN: Final = {
    "message": frozenset(("type", "id", "role", "content", "status", "object")),
    "reasoning": frozenset(("type", "id", "summary", "content", "status", "object")),
    "function_call": frozenset(("type", "id", "call_id", "name", "arguments", "status", "object")),
    "function_call_output": frozenset(("type", "id", "call_id", "output", "status", "object")),
}


def chat_of_items(items: Iterable[Any]) -> list[Any]:
    """The chat messages of items. What an item has beside its own fields goes along, and so is read or counted."""
    return joined_assistant(one for item in items for one in _chat(item))


def _chat(item: Any) -> list[Any]:
    if not isinstance(item, dict):
        return [{"role": "user", "content": item} if isinstance(item, str) else item]
    kind = item.get("type") or ("message" if "role" in item else "")
    known = _KNOWN.get(as_text(kind))
    if known is None:
        return [{"role": f"item {as_text(kind) or '?'}", "content": as_content(item)}]
    others = {name: value for name, value in item.items() if name not in known}
    match kind:
        case "message":
            return [{"role": item.get("role"), "content": _content(item.get("content")), **others}]
        case "reasoning":
            thoughts = [
                as_text(as_dict(part).get("text"))
                for part in (*as_list(item.get("content")), *as_list(item.get("summary")))
            ]
            thinking = "\n".join(dict.fromkeys(thought for thought in thoughts if thought))
            return [{"role": "assistant", "reasoning_content": thinking, **others}]
        case "function_call":
            call = tool_call(item.get("name"), item.get("arguments"), item.get("call_id"))
            return [{"role": "assistant", "tool_calls": [call], **others}]
    output = item.get("output")
    content = _content(output) if isinstance(output, list) else as_content(output)
    return [{"role": "tool", "tool_call_id": item.get("call_id"), "content": content, **others}]


def _content(content: Any) -> Any:
    """The parts of an item in the chat form: of sound with a transcript the transcript."""
    if not isinstance(content, list):
        return content
    return [_part(part) for part in content]


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind in _TEXTS:
        return {"type": "text", "text": as_text(part.get("text") or part.get("refusal"))}
    if kind in _TRANSCRIPTS and as_text(part.get("transcript")):
        return {"type": "text", "text": part["transcript"]}
    if kind in _TRANSCRIPTS:
        return {"type": "audio"}
    return part
