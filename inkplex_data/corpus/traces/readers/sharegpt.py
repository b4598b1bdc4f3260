"""ShareGPT conversations: `{"conversations": [{"from": "human", "value": …}, …]}`, with tools as some sets have them.

A `function_call` turn, and `<tool_call>` spans within an answer, are tool calls; `observation` is their result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    Message,
    TraceFormat,
    Unread,
    bad_message,
    own_id,
)
from inkplex_data.corpus.traces.exchanges import joined_assistant, tool_call
from inkplex_data.corpus.traces.raw import as_dict, as_list, as_text, decoded

_LISTS: Final = ("conversations", "conversation")
_ROLES: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "model": "assistant",
    "system": "system",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
}
_CALL: Final = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)


def _find(document: Any, place: str) -> Iterator[Found] | None:
    if _list_of(document) is not None:
        return iter([_found(document, place)])
    if isinstance(document, list) and any(_list_of(item) is not None for item in document):
        return (_found(item, f"{place}/{index}") for index, item in enumerate(document))
    return None


def _found(data: Any, place: str) -> Found:
    return Found(data, place, own_id(as_dict(data), "id", "conversation_id"))


def _list_of(value: Any) -> str | None:
    data = as_dict(value)
    return next(
        (name for name in _LISTS if any("from" in as_dict(turn) for turn in as_list(data.get(name)))), None
    )


def _parse(found: Found) -> Dialogue:
    name = _list_of(found.data)
    if name is None:
        raise bad_message(found.place, "holds no conversations of turns with from and value", found.data)
    data, unread = found.data, Unread()
    messages: list[Message] = []
    if as_text(data.get("system")):
        system = {"role": "system", "content": data["system"]}
        messages.append(read_message(system, f"{found.place}/system", unread))
    turns: list[Any] = []
    for index, turn in enumerate(data[name]):
        place = f"{found.place}/{name}/{index}"
        if not isinstance(turn, dict) or not isinstance(turn.get("from"), str):
            raise bad_message(f"{place}/from", "must name who speaks", turn)
        turns.append({**_chat(turn, place), "place": place})
    for message in joined_assistant(turns):
        place = message.pop("place")
        messages.append(read_message(message, place, unread))
    tools = decoded(data.get("tools"))
    unread.fields(data, {name, "id", "conversation_id", "system", "tools"})
    declared = tuple(tool for tool in as_list(tools) if isinstance(tool, dict))
    return Dialogue(tuple(messages), found.place, declared, unread=unread.counts)


def _chat(turn: dict[str, Any], place: str) -> dict[str, Any]:
    others = {name: value for name, value in turn.items() if name not in ("from", "value", "role", "content")}
    who, value = turn["from"].lower(), turn.get("value", turn.get("content"))
    if not isinstance(value, str):
        raise bad_message(f"{place}/value", "must be text", value)
    if who == "function_call":
        return {"role": "assistant", "tool_calls": _calls([value]), **others}
    role = _ROLES.get(who, turn["from"])
    message = {"role": role, "content": value, **others}
    spans = _CALL.findall(value) if role == "assistant" else []
    if spans:
        message |= {"content": _CALL.sub("", value).strip(), "tool_calls": _calls(spans)}
    return message


def _calls(texts: list[str]) -> list[Any]:
    calls = []
    for text in texts:
        value = decoded(text)
        for one in value if isinstance(value, list) else [value]:
            name = as_dict(one).get("name")
            arguments = as_dict(one).get("arguments", as_dict(one).get("parameters"))
            is_call = isinstance(name, str) and name
            calls.append(
                tool_call(name, arguments, "")
                if is_call
                else tool_call("?", text if isinstance(one, str) else json.dumps(one, ensure_ascii=False), "")
            )
    return calls


FORMAT = TraceFormat("sharegpt", "ShareGPT conversations", _parse, find=_find, priority=12)
