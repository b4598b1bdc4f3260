"""Langfuse traces and observations, exported as JSON or JSONL: generations are requests, tools say when a call was done.

Observations of one trace are joined; `completionStartTime` is when the first token was there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, gather_traces, session_dialogue
from inkplex_data.corpus.traces.langchain import chat_of
from inkplex_data.corpus.traces.logged_times import entry_times
from inkplex_data.corpus.traces.raw import as_dict, as_list, decoded, within


def _observations(
    document: Any, place: str, trace: str = "", depth: int = 0
) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Observations with their places and traces."""
    if depth > 50:
        return
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _observations(item, f"{place}/{index}", trace, depth + 1)
    elif isinstance(document, dict):
        for name in ("observations", "data", "traces"):
            if isinstance(document.get(name), list):
                own = own_id(document, "id") if name == "observations" else ""
                yield from _observations(document[name], f"{place}/{name}", own or trace, depth + 1)
                return
        if isinstance(document.get("type"), str) and ("traceId" in document or "startTime" in document):
            yield document, place, own_id(document, "traceId", "trace_id") or trace


def _result(one: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    call_id = own_id(as_dict(decoded(one.get("output"))), "tool_call_id") or own_id(
        as_dict(one.get("metadata")), "tool_call_id"
    )
    if one["type"].upper() in ("TOOL", "SPAN") and call_id and one.get("endTime") is not None:
        yield call_id, one["endTime"]


def _exchange(one: dict[str, Any], place: str, done: dict[str, Any]) -> Iterator[Exchange]:
    if one["type"].upper() != "GENERATION":
        return
    asked, tools = decoded(one.get("input")), None
    if isinstance(asked, dict):
        tools, asked = asked.get("tools"), asked.get("messages")
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    yield Exchange(
        place,
        as_list(asked),
        _answer(decoded(one.get("output"))),
        tools=tools or within(one.get("modelParameters"), "tools"),
        id=own_id(one, "id"),
        details={"model": one.get("model")},
        results=done,
        **entry_times(one),
    )


def _answer(output: Any) -> list[Any]:
    if isinstance(output, str):
        return [{"role": "assistant", "content": output}]
    message = within(output, "choices", 0, "message") or output
    if isinstance(message, list):
        message = message[0] if message else None
    if not isinstance(message, dict):
        return []
    return [message if "role" in message or "kwargs" in message else {"role": "assistant", **message}]


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, chat_of)


FORMAT = TraceFormat(
    "langfuse",
    "Langfuse observations",
    _parse,
    gather=gather_traces(_observations, _result, _exchange),
    priority=35,
)
