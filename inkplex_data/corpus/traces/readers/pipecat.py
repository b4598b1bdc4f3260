"""Event logs of Pipecat: RTVI messages (`label: rtvi-ai`), one after another, with the times of the logger.

A final transcription is what the user said, over at the time it has itself or when the user stopped speaking before it;
text of the model between the start and the stop of its run is one answer. Function calls and their results lie between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from inkplex_data.corpus.traces.chat_message import read_message
from inkplex_data.corpus.traces.dialogue import (
    Dialogue,
    Found,
    Message,
    TraceFormat,
    Unread,
    bad_message,
    time_us,
)
from inkplex_data.corpus.traces.event_log import Event, events_of, timed
from inkplex_data.corpus.traces.exchanges import tool_call
from inkplex_data.corpus.traces.raw import as_content, as_dict, as_text

_LABEL: Final = "rtvi-ai"
_CALLS: Final = ("llm-function-call", "llm-function-call-in-progress")


def _gather(documents: Sequence[tuple[Any, str]]) -> Iterable[Found] | None:
    events = [one for document, place in documents for one in events_of(document, place, marked="label")]
    if not any(data.get("label") == _LABEL for data, _, _ in events):
        return None
    return [Found(events, events[0][1])]


@dataclass
class _Talk:
    """The messages so far, and the answer that the model is at."""

    unread: Unread
    messages: list[Message] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    begun_us: int | None = None
    last_us: int | None = None
    stopped_us: int | None = None
    is_running: bool = False
    has_text: bool = False

    def take(self, event: Event) -> None:
        kind, data = as_text(event.data.get("type")), as_dict(event.data.get("data"))
        if kind == "user-stopped-speaking":
            self.stopped_us = event.seen_us
        elif kind == "user-transcription":
            if data.get("final") is True and as_text(data.get("text")):
                self.close(event)
                self._user(data, event)
        elif kind == "bot-llm-started":
            self.close(event)
            self.is_running = True
        elif kind == "bot-llm-text":
            self._text(self.texts, data, event)
        elif kind == "bot-transcription":
            self._text(self.spoken, data, event)
        elif kind in _CALLS:
            name = data.get("function_name")
            call = tool_call(
                name if isinstance(name, str) and name else "?",
                data.get("arguments", data.get("args")),
                data.get("tool_call_id"),
            )
            ids = [one["id"] for one in self.calls]
            if not call["id"] or call["id"] not in ids:
                self.calls.append(call)
            self._seen(event)
        elif kind in ("llm-function-call-stopped", "llm-function-call-result"):
            self.close(event)
            result = {
                "role": "tool",
                "tool_call_id": data.get("tool_call_id"),
                "content": as_content(data.get("result")),
            }
            self._add(result, event, at_us=event.seen_us)
        elif kind == "bot-llm-stopped":
            self._seen(event)
            self.is_running = False

    def _user(self, data: dict[str, Any], event: Event) -> None:
        own = data.get("timestamp")
        said_us = None if own in (None, "") else time_us(own, event.place)
        at_us = said_us if event.seen_us is None else event.seen_us
        event_us = self.stopped_us if self.stopped_us is not None else said_us
        self._add({"role": "user", "content": data["text"]}, event, at_us=at_us, event_us=event_us)
        self.stopped_us = None

    def _text(self, texts: list[str], data: dict[str, Any], event: Event) -> None:
        texts.append(as_text(data.get("text")))
        if texts is self.texts:
            self.begun_us = event.seen_us if self.begun_us is None else self.begun_us
            self._seen(event)
        elif not self.texts:
            self._seen(event)

    def _seen(self, event: Event) -> None:
        self.last_us = event.seen_us if event.seen_us is not None else self.last_us

    def _add(self, item: dict[str, Any], event: Event, **times: int | None) -> None:
        message = read_message(item, event.place, self.unread)
        self.messages.append(replace(message, **times))  # type: ignore[arg-type]

    def close(self, event: Event) -> None:
        """End the model's answer, if it is at one. What was spoken counts where the log has no text of the model."""
        text = "".join(self.texts) or " ".join(self.spoken)
        if text or self.calls:
            answer = {"role": "assistant", "content": text, "tool_calls": self.calls}
            begun_us = self.begun_us if self.begun_us != self.last_us else None
            self._add(answer, event, starts_us=begun_us, at_us=self.last_us)
        self.texts, self.spoken, self.calls = [], [], []
        self.begun_us = self.last_us = None


def _parse(found: Found) -> Dialogue:
    talk = _Talk(Unread())
    event = None
    for data, place, seen in found.data:
        event = timed(data, place, seen)
        talk.take(event)
    if event is not None:
        talk.close(event)
    if not talk.messages:
        raise bad_message(found.place, "holds no transcription and no answer")
    return Dialogue(tuple(talk.messages), found.place, unread=talk.unread.counts)


FORMAT = TraceFormat("pipecat", "Pipecat (RTVI) event logs", _parse, gather=_gather, priority=30)
