"""Event logs of OpenAI's Realtime interface: server events, one after another, with the times of the logger.

Speech has audio times (`audio_start_ms`, `audio_end_ms`): what a user said happened then, and was available when its
transcript or its commit was logged. The audio's zero on the logger's clock is the latest that lets no event be logged
before it happened. A log without times has those of the audio alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import Dialogue, Found, Message, TraceFormat, Unread, bad_message
from inkplex_data.corpus.traces.event_log import Event, events_of, timed
from inkplex_data.corpus.traces.items import chat_of_items
from inkplex_data.corpus.traces.raw import as_dict, as_list, as_text

_PREFIXES: Final = ("session.", "conversation.", "response.", "input_audio_buffer.", "rate_limits.")
_ADDED: Final = ("conversation.item.created", "conversation.item.added", "conversation.item.done")
_HEARD: Final = "conversation.item.input_audio_transcription.completed"
_STARTED, _STOPPED = "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"


def _gather(documents: Sequence[tuple[Any, str]]) -> Iterable[Found] | None:
    events = [one for document, place in documents for one in events_of(document, place, marked="type")]
    kinds = [as_text(data.get("type")) for data, _, _ in events]
    if not any(kind.startswith(("response.", "conversation.item.")) for kind in kinds):
        return None
    if not all(kind.startswith(_PREFIXES) or not kind or kind == "error" for kind in kinds):
        return None
    # A new session begins where one is created.
    starts = [index for index, kind in enumerate(kinds) if kind == "session.created"] or [0]
    starts[0] = 0
    bounds = zip(starts, [*starts[1:], len(events)], strict=True)
    return [Found(events[first:stop], events[first][1], _session(events[first][0])) for first, stop in bounds]


def _session(data: dict[str, Any]) -> str:
    return as_text(as_dict(data.get("session")).get("id"))


@dataclass
class _Item:
    """What the log says of one item of the conversation."""

    raw: dict[str, Any]
    place: str
    order: int
    seen_us: int | None = None
    begun_us: int | None = None
    response: str = ""
    transcript: str = ""
    ended_ms: float | None = None


@dataclass
class _Session:
    items: dict[str, _Item] = field(default_factory=dict)
    tools: list[Any] = field(default_factory=list)
    instructions: str = ""
    offsets_us: list[int] = field(default_factory=list)

    def item(self, name: str, event: Event) -> _Item:
        return self.items.setdefault(name, _Item({}, event.place, len(self.items)))

    def take(self, event: Event) -> None:
        data = event.data
        kind, name = as_text(data.get("type")), as_text(data.get("item_id"))
        if kind in ("session.created", "session.updated", "session.update"):
            session = as_dict(data.get("session"))
            self.tools = as_list(session.get("tools")) or self.tools
            self.instructions = as_text(session.get("instructions")) or self.instructions
        elif kind in _ADDED or kind == "response.output_item.done":
            raw = as_dict(data.get("item"))
            item = self.item(as_text(raw.get("id")) or event.place, event)
            # A later event of an item has more of it: the first says when a client's was there.
            item.raw = {
                **item.raw,
                **{name: value for name, value in raw.items() if value not in (None, [], "")},
            }
            is_own = raw.get("role") == "assistant" or raw.get("type") == "function_call"
            if event.seen_us is not None and (item.seen_us is None or is_own):
                item.seen_us = event.seen_us
            item.response = as_text(data.get("response_id")) or item.response
        elif kind == _HEARD:
            item = self.item(name, event)
            item.transcript, item.seen_us = as_text(data.get("transcript")), event.seen_us
        elif kind in (_STARTED, _STOPPED):
            at_ms = data.get("audio_start_ms" if kind == _STARTED else "audio_end_ms")
            if isinstance(at_ms, (int, float)) and not isinstance(at_ms, bool) and abs(at_ms) < 1e12:
                if kind == _STOPPED:
                    self.item(name, event).ended_ms = at_ms
                if event.seen_us is not None:
                    self.offsets_us.append(event.seen_us - round(at_ms * 1000))
        elif kind.endswith(".delta") and name:
            item = self.item(name, event)
            item.begun_us = event.seen_us if item.begun_us is None else item.begun_us
            item.response = as_text(data.get("response_id")) or item.response
        elif kind in ("response.audio_transcript.done", "response.output_audio_transcript.done"):
            self.item(name, event).transcript = as_text(data.get("transcript"))


def _parse(found: Found) -> Dialogue:
    session, unread = _Session(), Unread()
    for data, place, seen in found.data:
        session.take(timed(data, place, seen))
    zero_us = min(session.offsets_us, default=None)
    if session.instructions:
        messages = [read_message({"role": "system", "content": session.instructions}, found.place, unread)]
    else:
        messages = []
    for item in sorted(session.items.values(), key=lambda one: one.order):
        messages += _messages(item, zero_us, unread)
    if not any(message.role != "system" for message in messages):
        raise bad_message(found.place, "holds no items of a conversation")
    declared = tuple(tool for tool in session.tools if isinstance(tool, dict))
    return Dialogue(tuple(_answers(messages)), found.place, declared, unread=unread.counts, zero_us=zero_us)


def _messages(item: _Item, zero_us: int | None, unread: Unread) -> list[Message]:
    raw = dict(item.raw)
    if not raw:
        if not item.transcript:
            return []
        raw = {"type": "message", "role": "user"}
    if item.transcript:
        raw["content"] = [{"type": "text", "text": item.transcript}]
    read = [read_message(one, item.place, unread) for one in chat_of_items([raw])]
    event_us = None if item.ended_ms is None else round(item.ended_ms * 1000) + (zero_us or 0)
    made = []
    for message in read:
        if message.role == "assistant":
            begun_us = item.begun_us
            if begun_us is not None and item.seen_us is not None and begun_us > item.seen_us:
                begun_us = None
            made.append(replace(message, starts_us=begun_us, at_us=item.seen_us))
        else:
            at_us = event_us if item.seen_us is None else item.seen_us
            made.append(replace(message, at_us=at_us, event_us=event_us))
    return made


def _answers(messages: list[Message]) -> list[Message]:
    """Messages of the assistant in a row as one: what it said and the calls that it made."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is None or last.role != "assistant" or message.role != "assistant":
            joined.append(message)
            continue
        ends = [us for us in (last.at_us, message.at_us) if us is not None]
        joined[-1] = replace(
            last,
            parts=last.parts + message.parts,
            thinking="\n".join(filter(None, (last.thinking, message.thinking))),
            calls=last.calls + message.calls,
            at_us=max(ends, default=None),
        )
    return joined


FORMAT = TraceFormat("openai-realtime", "OpenAI Realtime event logs", _parse, gather=_gather, priority=30)
