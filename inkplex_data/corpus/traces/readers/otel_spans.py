"""OpenTelemetry spans of the GenAI conventions, as OTLP JSON (`resourceSpans`) or as a console exporter writes them.

A span of a model's request has `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.system_instructions`, on itself
or on its event of the operation's details; those of earlier versions have an event for each message. A span of a tool says
when its call was done. Requests of one trace are joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, gather_traces, session_dialogue, tool_call
from inkplex_data.corpus.traces.raw import as_content, as_dict, as_list, as_text, decoded

_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def _spans(document: Any, place: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Spans with their places and traces."""
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _spans(item, f"{place}/{index}")
        return
    data = as_dict(document)
    if "resourceSpans" in data:
        for a, resource in enumerate(as_list(data["resourceSpans"])):
            for b, scope in enumerate(as_list(as_dict(resource).get("scopeSpans"))):
                for c, span in enumerate(as_list(as_dict(scope).get("spans"))):
                    if isinstance(span, dict):
                        yield span, f"{place}/resourceSpans/{a}/scopeSpans/{b}/spans/{c}", _trace_id(span)
    elif "attributes" in data and ("traceId" in data or "context" in data or "trace_id" in data):
        yield data, place, _trace_id(data)


def _trace_id(span: dict[str, Any]) -> str:
    return as_text(
        span.get("traceId") or span.get("trace_id") or as_dict(span.get("context")).get("trace_id")
    )


def _times(span: dict[str, Any]) -> tuple[str | None, str | None]:
    """Start and end as text, comparable within one exporter."""
    both: list[str | None] = []
    for nanoseconds, iso in (("startTimeUnixNano", "start_time"), ("endTimeUnixNano", "end_time")):
        value = span.get(nanoseconds)
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else as_text(value)
        if text.isascii() and text.isdecimal() and len(text) < 25:
            both.append(f"{int(text) // 1_000_000_000}.{int(text) % 1_000_000_000:09d}")
        else:
            both.append(as_text(span.get(iso)) or None)
    return both[0], both[1]


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes as a mapping: OTLP lists keys with typed values, other exporters have them plain."""
    if isinstance(value, dict):
        return value
    return {
        as_text(item.get("key")): _plain(item.get("value"))
        for item in as_list(value)
        if isinstance(item, dict)
    }


def _plain(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict) or depth > 40:
        return value
    if "arrayValue" in value:
        return [_plain(one, depth + 1) for one in as_list(as_dict(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        pairs = as_list(as_dict(value["kvlistValue"]).get("values"))
        return {
            as_text(as_dict(pair).get("key")): _plain(as_dict(pair).get("value"), depth + 1) for pair in pairs
        }
    return next((one for name, one in value.items() if name.endswith("Value")), None)


def _result(span: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    call_id, end = own_id(_attributes(span.get("attributes")), "gen_ai.tool.call.id"), _times(span)[1]
    if call_id and end is not None:
        yield call_id, end


def _exchange(span: dict[str, Any], place: str, done: dict[str, Any]) -> Iterator[Exchange]:
    attributes = _attributes(span.get("attributes"))
    asked, answer, system = [], [], decoded(attributes.get("gen_ai.system_instructions"))
    events = [event for event in as_list(span.get("events")) if isinstance(event, dict)]
    for event in events:
        inner = _attributes(event.get("attributes"))
        name = as_text(event.get("name"))
        if name == _DETAILS:
            attributes = {**inner, **attributes}
            system = system or decoded(inner.get("gen_ai.system_instructions"))
        elif name in _ROLES:
            asked.append({"role": _ROLES[name], **_event_fields(inner)})
        elif name == "gen_ai.choice":
            message = as_dict(decoded(inner.get("message"))) or _event_fields(inner)
            answer.append({"role": "assistant", **message})
    asked = as_list(decoded(attributes.get("gen_ai.input.messages"))) or asked
    answer = as_list(decoded(attributes.get("gen_ai.output.messages")))[:1] or answer[:1]
    if not answer:
        return
    start, end = _times(span)
    first = attributes.get("gen_ai.response.time_to_first_chunk")
    yield Exchange(
        place,
        asked,
        answer,
        system=_parts(system) if isinstance(system, list) else system,
        tools=as_list(decoded(attributes.get("gen_ai.tool.definitions"))),
        start=start,
        first=_later(start, first),
        end=end,
        id=own_id(span, "spanId", "span_id") or own_id(as_dict(span.get("context")), "span_id"),
        details={"model": attributes.get("gen_ai.response.model", attributes.get("gen_ai.request.model"))},
        results=done,
    )


def _later(start: str | None, seconds: Any) -> Any:
    """The start and some seconds, where both are numbers: the time of a first token."""
    if start is None or isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    whole, dot, part = start.partition(".")
    if not (dot and whole.isdecimal() and part.isdecimal() and 0 <= seconds < 1e6):
        return None
    nanoseconds = int(whole) * 1_000_000_000 + int(part) + int(seconds * 1e9)
    return f"{nanoseconds // 1_000_000_000}.{nanoseconds % 1_000_000_000:09d}"


def _event_fields(inner: dict[str, Any]) -> dict[str, Any]:
    """An event's message: its fields, of which some are JSON text."""
    known: dict[str, Any] = {
        name: decoded(inner[name]) for name in ("content", "tool_calls", "id", "name") if name in inner
    }
    known["content"] = as_content(known.get("content"))
    return known


def _chat(item: Any) -> list[Any]:
    """The chat messages of one message of the conventions, whose `parts` may be results among text."""
    if not isinstance(item, dict) or not isinstance(item.get("parts"), list):
        return [item]
    others = {name: value for name, value in item.items() if name not in ("role", "parts", "finish_reason")}
    calls: list[Any] = []
    thoughts: list[str] = []
    results: list[Any] = []
    texts = []
    for part in item["parts"]:
        kind = part.get("type") if isinstance(part, dict) else ""
        if kind == "tool_call":
            calls.append(tool_call(part.get("name"), part.get("arguments"), part.get("id")))
        elif kind == "tool_call_response":
            content = as_content(part.get("response", part.get("result")))
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": content})
        elif kind == "reasoning":
            thoughts.append(as_text(part.get("content")))
        else:
            texts.append(part)
    if not (texts or calls or thoughts) and results:
        return results
    own = {"role": item.get("role"), "content": _parts(texts), **others}
    if calls:
        own["tool_calls"] = calls
    if any(thoughts):
        own["reasoning_content"] = "\n".join(thought for thought in thoughts if thought)
    return [*results, own]


def _parts(parts: list[Any]) -> list[Any]:
    """Text parts, which hold it as `content`; of media what they are."""
    found = []
    for part in parts:
        kind = as_text(as_dict(part).get("type"))
        modality = as_text(as_dict(part).get("modality"))
        if kind == "text" or (not kind and isinstance(part, dict)):
            found.append({"type": "text", "text": as_text(as_dict(part).get("content"))})
        elif kind in ("blob", "uri", "file") and modality in ("image", "audio"):
            found.append({"type": modality})
        else:
            found.append(part)
    return found


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, _chat)


FORMAT = TraceFormat(
    "otel",
    "OpenTelemetry GenAI spans",
    _parse,
    gather=gather_traces(_spans, _result, _exchange, lambda start: as_text(start).rjust(40)),
    priority=40,
)
