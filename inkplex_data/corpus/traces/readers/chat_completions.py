"""Logs of OpenAI's chat completions: each request's `messages` beside the `choices` of its response.

An entry holds both together, or under `request` and `response`, whose body may lie under `body`. Its own times
(`start_time`, `end_time`, …) count; `created` has whole seconds, so the request was there at the end of that second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, found_sessions, session_dialogue
from inkplex_data.corpus.traces.logged_times import entry_times
from inkplex_data.corpus.traces.raw import as_dict, as_list, within


def _gather(documents: Sequence[tuple[Any, str]]) -> Iterable[Found] | None:
    exchanges = [one for document, place in documents for one in _exchanges(document, place)]
    return list(found_sessions(exchanges)) or None


def _exchanges(document: Any, place: str) -> Iterator[Exchange]:
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _exchanges(item, f"{place}/{index}")
        return
    entry = as_dict(document)
    request, response = _body(entry.get("request")) or entry, _body(entry.get("response")) or entry
    choices, asked = response.get("choices"), request.get("messages")
    if not isinstance(choices, list) or not isinstance(asked, list):
        return
    answer = within(choices, 0, "message")
    yield Exchange(
        place,
        asked,
        [] if answer is None else [{"role": "assistant", **as_dict(answer)}],
        tools=as_list(request.get("tools")),
        id=own_id(response, "id"),
        details={"model": response.get("model", request.get("model"))},
        **entry_times(entry, response.get("created")),
    )


def _body(value: Any) -> dict[str, Any]:
    value = as_dict(value)
    return as_dict(value.get("body")) or value


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, lambda item: [item])


FORMAT = TraceFormat("chat-completions", "logs of chat completions", _parse, gather=_gather, priority=20)
