"""Logs of OpenAI's chat completions: each request's `messages` beside the `choices` of its response.

An entry holds both together, or under `request` and `response`, whose body may lie under `body`. Its own times
(`start_time`, `end_time`, …) count; `created` has whole seconds, so the request was there at the end of that second.
"""

from __future__ import annotations

from typing import Any

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, gather_log, logged_bodies, session_dialogue
from inkplex_data.corpus.traces.logged_times import entry_times
from inkplex_data.corpus.traces.raw import as_dict, as_list, within


def _exchange(entry: dict[str, Any], place: str) -> Exchange | None:
    request, response = logged_bodies(entry)
    choices, asked = response.get("choices"), request.get("messages")
    if not isinstance(choices, list) or not isinstance(asked, list):
        return None
    answer = within(choices, 0, "message")
    return Exchange(
        place,
        asked,
        [] if answer is None else [{"role": "assistant", **as_dict(answer)}],
        tools=as_list(request.get("tools")),
        id=own_id(response, "id"),
        details={"model": response.get("model", request.get("model"))},
        **entry_times(entry, response.get("created")),
    )


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, lambda item: [item])


FORMAT = TraceFormat(
    "chat-completions", "logs of chat completions", _parse, gather=gather_log(_exchange), priority=20
)
