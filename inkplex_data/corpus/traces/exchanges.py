"""Logs of single model requests, joined into sessions: a request goes on from one whose messages it begins with.

Engines, interfaces and tracers log each request with its whole context. The session is the chain of them: what a request
adds to the one before are that one's answer, and what happened since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import Dialogue, Found, Message, Unread, bad_message, time_us
from inkplex_data.corpus.traces.raw import as_dict, as_list, as_text

Normal = Callable[[Any], list[Any]]
"""Puts one message of an interface into messages of the chat form (`chat_message`)."""


@dataclass(frozen=True)
class Exchange:
    """One logged request. `asked` are the messages of its context and `answer` what the model gave, as the log has them;
    `system` and `tools` stand beside them.

    `start`, `first` and `end` are the times of the request, of its first token and of its last, None where the log has
    none. `id` and `previous` chain requests that only send what is new. `results`: when tool calls were done, by their ids.
    """

    place: str
    asked: list[Any]
    answer: list[Any] = field(default_factory=list)
    system: Any = None
    tools: Any = None
    start: Any = None
    first: Any = None
    end: Any = None
    id: str = ""
    previous: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)


def sessions(exchanges: Iterable[Exchange]) -> list[list[Exchange]]:
    """Exchanges as chains, each in the order of its requests. A request that goes on from another's messages, or names it
    as its previous one, follows it; of several the one with most in common that nothing has followed yet."""
    chains: list[list[Exchange]] = []
    for exchange in exchanges:
        best: list[Exchange] | None = None
        for chain in chains:
            last = chain[-1]
            if _follows(exchange, last) and (
                best is None or exchange.previous or len(best[-1].asked) < len(last.asked)
            ):
                best = chain
        if best is None:
            chains.append([exchange])
        else:
            best.append(exchange)
    return chains


def _follows(exchange: Exchange, last: Exchange) -> bool:
    if exchange.previous:
        return exchange.previous == last.id
    size = len(last.asked)
    if not size or len(exchange.asked) <= size or exchange.system != last.system:
        return False
    return exchange.asked[:size] == last.asked


def gather_log(
    read: Callable[[dict[str, Any], str], Exchange | None],
    is_entry: Callable[[Any], bool] = lambda item: False,
) -> Callable[[Sequence[tuple[Any, str]]], Iterable[Found] | None]:
    """A format's `gather` for logs whose entries each hold one request: `read` takes an entry and its place, and gives None
    for what is none. Lists are looked through, but for those that `is_entry` calls one."""

    def entries(document: Any, place: str) -> Iterator[Exchange]:
        if isinstance(document, list) and not is_entry(document):
            for index, item in enumerate(document):
                yield from entries(item, f"{place}/{index}")
            return
        entry = {"messages": document} if isinstance(document, list) else as_dict(document)
        if (exchange := read(entry, place)) is not None:
            yield exchange

    def gather(documents: Sequence[tuple[Any, str]]) -> Iterable[Found] | None:
        found = [one for document, place in documents for one in entries(document, place)]
        return list(found_sessions(found)) or None

    return gather


Record = dict[str, Any]


def gather_traces(
    records: Callable[[Any, str], Iterable[tuple[Record, str, str]]],
    result: Callable[[Record], Iterator[tuple[str, Any]]],
    exchange: Callable[[Record, str, dict[str, Any]], Iterator[Exchange]],
    order: Callable[[Any], str] = as_text,
) -> Callable[[Sequence[tuple[Any, str]]], Iterable[Found] | None]:
    """A format's `gather` for exports of tracers: `records` gives each record of a document, its place and its trace.

    In a trace `result` says which tool calls a record ends, and when; `exchange` makes requests of a record with all of
    those. `order` makes of a start what sorts like the time.
    """

    def gather(documents: Sequence[tuple[Any, str]]) -> Iterable[Found] | None:
        traces: dict[str, list[tuple[Record, str]]] = {}
        for document, place in documents:
            for record, at, trace in records(document, place):
                traces.setdefault(trace, []).append((record, at))
        found: list[Found] = []
        for name, members in traces.items():
            done = {call_id: end for record, _ in members for call_id, end in result(record)}
            exchanges = [one for record, at in members for one in exchange(record, at, done)]
            exchanges.sort(key=lambda one: order(one.start))
            found += found_sessions(exchanges, name)
        return found or None

    return gather


def logged_bodies(entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and the response of an entry: beside each other, with or without a `body` around them, or all in one."""
    request, response = (
        as_dict(as_dict(entry.get(name)).get("body")) or as_dict(entry.get(name)) or entry
        for name in ("request", "response")
    )
    return request, response


def found_sessions(exchanges: Iterable[Exchange], name: str = "") -> Iterator[Found]:
    """The sessions of a log, with the id of each: `name`, where it is of one session alone, or its first request's."""
    chains = sessions(exchanges)
    for chain in chains:
        first = chain[0]
        yield Found(chain, first.place, name if name and len(chains) == 1 else first.id)


def session_dialogue(found: Found, normal: Normal) -> Dialogue:
    """The messages of a chain of exchanges. Raises CallRefused for what is no message or time."""
    unread = Unread()
    messages: list[Message] = []
    known = 0
    chain: Sequence[Exchange] = found.data
    for number, exchange in enumerate(chain):
        start_us, first_us, end_us = (
            None if value is None else time_us(value, exchange.place)
            for value in (exchange.start, exchange.first, exchange.end)
        )
        if number == 0 and exchange.system:
            messages += _read([{"role": "system", "content": exchange.system}], exchange.place, unread)
        fresh = exchange.asked if exchange.previous else exchange.asked[known:]
        asked = joined_assistant(one for item in fresh for one in normal(item))
        if known and not exchange.previous:
            # The context holds the answer before as the interface spells it there, often without its thinking.
            while asked and as_dict(asked[0]).get("role") in ("assistant", "model", "ai"):
                del asked[0]
        results = {name: time_us(at, exchange.place) for name, at in exchange.results.items()}
        for message in _read(asked, exchange.place, unread):
            messages.append(
                replace(
                    message,
                    at_us=start_us if message.at_us is None else message.at_us,
                    moment_us=None,
                    event_us=results.get(message.call_id) if message.role == "tool" else message.event_us,
                )
            )
        answers = [one for item in exchange.answer for one in normal(item)]
        for message in _read(joined_assistant(answers), exchange.place, unread):
            messages.append(replace(message, starts_us=first_us, at_us=end_us, moment_us=None))
        known = len(exchange.asked)
    if not messages:
        raise bad_message(found.place, "holds no messages")
    tools = next((exchange.tools for exchange in chain if exchange.tools), None)
    declared = tuple(tool for tool in as_list(tools) if isinstance(tool, dict))
    details = {
        name: value
        for exchange in chain[:1]
        for name, value in exchange.details.items()
        if isinstance(value, (str, int, float, bool))
    }
    return Dialogue(tuple(messages), found.place, declared, details, unread.counts)


def _read(items: Iterable[Any], place: str, unread: Unread) -> list[Message]:
    return [_message(item, place, unread) for item in items]


def _message(item: Any, place: str, unread: Unread) -> Message:
    if not isinstance(item, dict):
        raise bad_message(place, "holds something that is not a message", item)
    return read_message(item, place, unread)


def joined_assistant(items: Iterable[Any]) -> list[Any]:
    """Chat messages in which consecutive ones of the assistant are one: its thinking, its text and its tool calls."""
    joined: list[Any] = []
    for item in items:
        if joined and _is_assistant(item) and _is_assistant(joined[-1]):
            _extend(joined[-1], item)
        else:
            joined.append(dict(item) if isinstance(item, dict) else item)
    return joined


def _extend(last: dict[str, Any], item: dict[str, Any]) -> None:
    """Add to an assistant's message what it did next; the later of two ends counts."""
    for name, value in item.items():
        if name in ("content", "tool_calls") and value:
            last[name] = _added(last.get(name), value)
        elif name in ("reasoning_content", "thinking") and value and last.get(name):
            last[name] = f"{last[name]}\n{value}"
        elif value is not None and (not last.get(name) or name in ("end", "timestamp")):
            last[name] = value


def _is_assistant(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"


def _added(before: Any, value: Any) -> Any:
    """Texts, lists of parts or of calls, one after the other."""
    if not before:
        return value
    both = [one if isinstance(one, list) else [{"type": "text", "text": one}] for one in (before, value)]
    return both[0] + both[1]


def tool_call(name: Any, arguments: Any, call_id: Any) -> dict[str, Any]:
    """A tool call of the chat form."""
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": name,
            "arguments": arguments
            if isinstance(arguments, str) or arguments is None
            else json.dumps(arguments, ensure_ascii=False),
        },
    }
