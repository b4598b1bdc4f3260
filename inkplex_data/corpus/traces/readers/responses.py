"""Logs of OpenAI's Responses interface: each request's `input` beside the `output` items of its response.

A response that names a `previous_response_id` goes on from it and brings only what is new. `created_at` and `completed_at`
have whole seconds, which count at their ends.
"""

from __future__ import annotations

from typing import Any

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, gather_log, logged_bodies, session_dialogue
from inkplex_data.corpus.traces.items import chat_of_items
from inkplex_data.corpus.traces.logged_times import entry_times
from inkplex_data.corpus.traces.raw import as_list, as_text


def _exchange(entry: dict[str, Any], place: str) -> Exchange | None:
    request, response = logged_bodies(entry)
    output = response.get("output")
    if response.get("object") != "response" or not isinstance(output, list):
        return None
    asked = request.get("input", response.get("input"))
    times = entry_times({name: value for name, value in entry.items() if name != "completed_at"})
    if times["start"] is None:
        times["start"] = _next_second(response.get("created_at"))
    if times["end"] is None:
        times["end"] = _next_second(response.get("completed_at"))
    return Exchange(
        place,
        asked if isinstance(asked, list) else [asked] if isinstance(asked, str) else [],
        output,
        system=request.get("instructions", response.get("instructions")),
        tools=as_list(request.get("tools", response.get("tools"))),
        id=own_id(response, "id"),
        previous=as_text(response.get("previous_response_id") or request.get("previous_response_id")),
        details={"model": response.get("model", request.get("model"))},
        **times,
    )


def _next_second(value: Any) -> Any:
    return value + 1 if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, lambda item: chat_of_items([item]))


FORMAT = TraceFormat(
    "responses", "logs of OpenAI responses", _parse, gather=gather_log(_exchange), priority=25
)
