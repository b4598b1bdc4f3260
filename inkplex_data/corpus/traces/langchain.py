"""Messages as LangChain serialises them: constructors (`lc`), or mappings with a `type` and `data`."""

from __future__ import annotations

from typing import Any, Final

from inkplex_data.corpus.traces.exchanges import tool_call
from inkplex_data.corpus.traces.raw import as_dict, as_list, as_text

_ROLES: Final = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "tool",
    "FunctionMessage": "tool",
}
_QUIET: Final = ("response_metadata", "usage_metadata", "invalid_tool_calls", "example", "type", "status")


def chat_of(item: Any) -> list[Any]:
    """The chat message that a LangChain message is; others as they are."""
    if not isinstance(item, dict):
        return [item]
    fields, name = item, as_text(item.get("type"))
    if name == "constructor" and isinstance(item.get("kwargs"), dict):
        fields = item["kwargs"]
        name = as_text((as_list(item.get("id")) or [""])[-1])
    elif isinstance(item.get("data"), dict) and "role" not in item:
        fields = item["data"]
    name = name.removesuffix("Chunk")
    if name not in _ROLES or "role" in fields:
        return [item]
    message = {key: value for key, value in fields.items() if key not in _QUIET}
    extra = as_dict(message.pop("additional_kwargs", None))
    calls = [
        tool_call(as_dict(call).get("name"), as_dict(call).get("args"), as_dict(call).get("id"))
        for call in as_list(message.pop("tool_calls", None))
    ] or as_list(extra.get("tool_calls"))
    content = message.get("content")
    if isinstance(content, list):
        # Calls stand among the blocks a second time.
        message["content"] = [block for block in content if as_dict(block).get("type") != "tool_use"]
    thinking = as_text(extra.get("reasoning_content"))
    return [
        {
            **message,
            "role": _ROLES[name],
            **({"tool_calls": calls} if calls else {}),
            **({"reasoning_content": thinking} if thinking else {}),
        }
    ]
