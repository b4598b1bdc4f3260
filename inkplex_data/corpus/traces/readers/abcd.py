"""Dialogues of the Action-Based Conversations Dataset: `{"convo_id": …, "original": [[speaker, text], …]}`.

An action is a button that the human agent pressed and what the system answered. Where `delexed` names the
button and its values it becomes a tool call and its result; without that, the answer alone is known. The
scenario is the caller's script, which the agent never saw, so it is no part of the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    Message,
    Part,
    ToolCall,
    TraceFormat,
    Unread,
    bad_message,
    own_id,
)

NAME: Final = "abcd"
_SPLITS: Final = ("train", "dev", "test")


def _find(document: Any, place: str) -> Iterator[Found] | None:
    if _is_dialogue(document):
        return iter([_found(document, place)])
    if isinstance(document, list) and any(_is_dialogue(item) for item in document):
        return (_found(item, f"{place}/{index}") for index, item in enumerate(document))
    if isinstance(document, dict):
        listed = [name for name in _SPLITS if isinstance(document.get(name), list)]
        if any(_is_dialogue(item) for name in listed for item in document[name]):
            return (
                _found(item, f"{place}/{name}/{index}")
                for name in listed
                for index, item in enumerate(document[name])
            )
    return None


def _is_dialogue(value: object) -> bool:
    turns = value.get("original") if isinstance(value, dict) else None
    return isinstance(turns, list) and bool(turns) and all(_is_turn(turn) for turn in turns)


def _is_turn(turn: object) -> bool:
    return isinstance(turn, list) and len(turn) == 2 and all(isinstance(part, str) for part in turn)


def _found(data: Any, place: str) -> Found:
    return Found(data, place, own_id(data, "convo_id") if isinstance(data, dict) else "")


def _parse(found: Found) -> Dialogue:
    data = found.data
    if not _is_dialogue(data):
        raise bad_message(f"{found.place}/original", "is not a list of [speaker, text] pairs", data)
    turns = data["original"]
    messages: list[Message] = []
    unread = Unread()
    for index, (speaker, text) in enumerate(turns):
        place = f"{found.place}/original/{index}"
        if speaker == "action":
            messages += _action(text, _button(data, index), place, f"action-{index}")
        elif speaker == "agent":
            messages.append(Message("assistant", place, (Part(text),)))
        elif speaker == "customer":
            messages.append(Message("user", place, (Part(text),)))
        else:
            unread.role(speaker)
            messages.append(Message("other", place, (Part(text),), name=speaker))
    scenario = data.get("scenario")
    unread.fields(data, {"convo_id", "original", "delexed", "scenario"})
    details: dict[str, Any] = {
        name: scenario[name]
        for name in ("flow", "subflow")
        if isinstance(scenario, dict) and isinstance(scenario.get(name), str)
    }
    return Dialogue(tuple(messages), found.place, details=details, unread=unread.counts)


def _button(data: dict[str, Any], index: int) -> ToolCall | None:
    """The button of the action at `index`: `targets` are [intent, step, button, values, utterance]."""
    delexed = data.get("delexed")
    if not isinstance(delexed, list) or len(delexed) != len(data["original"]):
        return None
    turn = delexed[index]
    targets = turn.get("targets") if isinstance(turn, dict) else None
    if not isinstance(targets, list) or len(targets) < 4 or not isinstance(targets[2], str):
        return None
    return ToolCall(targets[2], json.dumps({"values": targets[3]}, ensure_ascii=False))


def _action(text: str, button: ToolCall | None, place: str, call_id: str) -> list[Message]:
    if button is None:
        return [Message("tool", place, (Part(text),), name="action")]
    call = ToolCall(button.name, button.arguments, call_id)
    return [
        Message("assistant", place, calls=(call,)),
        Message("tool", place, (Part(text),), name=button.name, call_id=call_id),
    ]


FORMAT = TraceFormat(NAME, "ABCD dialogues", _parse, find=_find, priority=10)
