"""Results of tau-bench (`traj` of each task) and tau2-bench (`simulations`, with a time for each message).

In tau2-bench the user has tools of their own, which the agent never sees: such calls and their results are no part of the
agent's session, and are counted as left out. Base64 sound that stands as content is sound.
"""

from __future__ import annotations

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
from inkplex_data.corpus.traces.raw import as_dict, as_list

_DETAILS: Final = ("task_id", "trial", "reward", "seed", "termination_reason")
_QUIET: Final = ("turn_idx", "cost", "usage", "raw_data", "generation_time_seconds", "requestor", "is_audio")
_LISTS: Final = ("traj", "messages")


def _find(document: Any, place: str) -> Iterator[Found] | None:
    if isinstance(document, dict) and isinstance(document.get("simulations"), list):
        return _all(document["simulations"], f"{place}/simulations")
    if isinstance(document, list) and any("traj" in as_dict(item) for item in document):
        return _all(document, place)
    if isinstance(document, dict) and isinstance(document.get("traj"), list):
        return _all([document], place)
    return None


def _all(items: list[Any], place: str) -> Iterator[Found]:
    ids = [_id(item) for item in items]
    unique = len(set(ids)) == len(ids)
    return (Found(item, f"{place}/{index}", ids[index] if unique else "") for index, item in enumerate(items))


def _id(item: Any) -> str:
    data = as_dict(item)
    return own_id(data, "id") or "-".join(filter(None, (own_id(data, "task_id"), own_id(data, "trial"))))


def _parse(found: Found) -> Dialogue:
    data, unread = as_dict(found.data), Unread()
    name = next((name for name in _LISTS if isinstance(data.get(name), list)), None)
    if name is None:
        raise bad_message(found.place, "holds no messages under traj or messages", found.data)
    details = {key: data[key] for key in _DETAILS if isinstance(data.get(key), (str, int, float, bool))}
    messages: list[Message] = []
    hidden = 0
    for index, item in enumerate(data[name]):
        place = f"{found.place}/{name}/{index}"
        # Calls that ran side by side have one message with their results in it.
        for one in as_list(as_dict(item).get("tool_messages")) or [item]:
            if not isinstance(one, dict):
                raise bad_message(place, "is not a message", one)
            if _is_users_own(one):
                hidden += 1
                if not (one.get("role") == "user" and one.get("content")):
                    continue
            messages.append(read_message(_chat(one), place, unread))
    if hidden:
        details["user_tool_messages_left_out"] = hidden
    unread.fields(data, {name, "id", *details})
    return Dialogue(tuple(messages), found.place, details=details, unread=unread.counts)


def _is_users_own(item: dict[str, Any]) -> bool:
    return bool(item.get("role") == "user" and item.get("tool_calls")) or (
        item.get("role") == "tool" and item.get("requestor") == "user"
    )


def _chat(item: dict[str, Any]) -> dict[str, Any]:
    message = {name: value for name, value in item.items() if name not in _QUIET}
    if item.get("is_audio") is True:
        message["content"] = [{"type": "audio"}]
    if item.get("role") == "user":
        message.pop("tool_calls", None)
    calls = item.get("tool_calls")
    if isinstance(calls, list) and "tool_calls" in message:
        message["tool_calls"] = [
            {name: value for name, value in call.items() if name != "requestor"}
            if isinstance(call, dict)
            else call
            for call in calls
        ]
    return message


FORMAT = TraceFormat("tau-bench", "tau-bench and tau2-bench results", _parse, find=_find, priority=12)
