"""Trajectories of SWE-agent (`.traj`): its `history` of messages beside the `trajectory` of steps.

The history is what the model read and wrote; steps repeat it. Thoughts and actions that stand in a message a second time
are not read twice, and thinking blocks are thinking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, Unread, bad_message
from inkplex_data.corpus.traces.raw import as_dict, as_list, as_text

_QUIET: Final = ("agent", "message_type", "thought", "action", "is_demo", "tags", "cache_control")
_OWN: Final = frozenset(("trajectory", "history", "environment", "replay_config"))


def _find(document: Any, place: str) -> Iterator[Found] | None:
    if _is_trajectory(document):
        return iter([Found(document, place)])
    if isinstance(document, list) and any(_is_trajectory(item) for item in document):
        return (Found(item, f"{place}/{index}") for index, item in enumerate(document))
    return None


def _is_trajectory(value: Any) -> bool:
    data = as_dict(value)
    return isinstance(data.get("history"), list) and isinstance(data.get("trajectory"), list)


def _parse(found: Found) -> Dialogue:
    if not _is_trajectory(found.data):
        raise bad_message(found.place, "has no history beside its trajectory", found.data)
    data, unread = found.data, Unread()
    messages = []
    for index, item in enumerate(data["history"]):
        place = f"{found.place}/history/{index}"
        if not isinstance(item, dict):
            raise bad_message(place, "is not a message", item)
        messages.append(read_message(_chat(item), place, unread))
    for step in as_list(data["trajectory"]):
        unread.fields({name: as_dict(step).get(name) for name in ("execution_time",)}, ())
    info = as_dict(data.get("info"))
    details = {
        name: info[name] for name in ("exit_status", "swe_agent_version") if isinstance(info.get(name), str)
    }
    environment = data.get("environment")
    if isinstance(environment, str):
        details["environment"] = environment
    unread.fields(data, {*_OWN, "info"})
    return Dialogue(tuple(messages), found.place, details=details, unread=unread.counts)


def _chat(item: dict[str, Any]) -> dict[str, Any]:
    message = {name: value for name, value in item.items() if name not in _QUIET}
    ids = as_list(message.pop("tool_call_ids", None))
    if item.get("role") == "tool" and ids:
        message["tool_call_id"] = ids[0]
    blocks = [
        as_text(as_dict(block).get("thinking")) for block in as_list(message.pop("thinking_blocks", None))
    ]
    if any(blocks):
        message["reasoning_content"] = "\n".join(block for block in blocks if block)
    return message


FORMAT = TraceFormat("swe-agent", "SWE-agent trajectories", _parse, find=_find, priority=12)
