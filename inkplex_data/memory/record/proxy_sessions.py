"""Exchanges that passed through the proxy, written as recordings: one for each session."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.assemble import RECORDING_SUFFIX
from inkplex_data.corpus.traces import Dialogue, Found, formats
from inkplex_data.corpus.traces.dialogue_requests import Encoder, Spelled
from inkplex_data.errors import CallRefused
from inkplex_data.memory.record.answers import Answer
from inkplex_data.memory.record.conversations import Conversations
from inkplex_data.memory.record.engine_exchange import Exchange
from inkplex_data.memory.record.exact_tokens import exact_tokens
from inkplex_data.memory.record.session_recorder import ArrivedToken, SessionRecorder, SessionTime

_NAME: Final = re.compile(r"[\w.-]{1,80}")


@dataclass(eq=False)
class ProxySession:
    """One session. `lock` is held while one of its exchanges is written."""

    name: str
    time: SessionTime
    recorder: SessionRecorder | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class ProxySessions:
    """Finds the session of each exchange, and writes it. Its methods may be called from several threads.

    `counts`: what was recorded, and what was not, for people.
    """

    def __init__(self, out: Path, encoder: Encoder, *, engine: str) -> None:
        """`out`: folder of the recordings; `encoder` renders and tokenises; `engine`: what the headers call it."""
        self._out, self._encoder, self._engine = out, encoder, engine
        self._conversations: Conversations[ProxySession] = Conversations()
        self._named: dict[str, ProxySession] = {}
        self._started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self._lock = threading.Lock()
        self._messages = next(form for form in formats() if form.name == "messages")
        self.sessions: list[ProxySession] = []
        self.counts: Counter[str] = Counter()

    def session(self, messages: Sequence[dict[str, Any]], name: str | None = None) -> ProxySession:
        """The session that a request belongs to: the one of that `name`, the one that it goes on from, or a new one."""
        if name is not None and _NAME.fullmatch(name):
            with self._lock:
                if name not in self._named:
                    self._named[name] = self._begin(name)
                return self._named[name]
        found = self._conversations.going_on(messages)
        if found is not None:
            return found
        with self._lock:
            return self._begin(f"session-{self._started}-{len(self.sessions):04d}")

    def _begin(self, name: str) -> ProxySession:
        self.sessions.append(ProxySession(name, SessionTime()))
        return self.sessions[-1]

    def record(self, session: ProxySession, exchange: Exchange) -> None:
        """Write what was asked and answered. An exchange that brought no token is counted, and so is one that was cut."""
        answers = [answer for _, answer in sorted(exchange.answers.items()) if answer.began_us is not None]
        if not answers:
            self.count("requests without an answer")
            self._conversations.stands(session, exchange.messages)
            return
        for answer in answers:
            said = [*exchange.messages, answer.message()]
            try:
                with session.lock:
                    self._write(session, exchange, answer, said)
            except CallRefused as error:
                self.count(f"requests that cannot be told: {error.what}")
            else:
                self.count("requests" if answer.finished_us is not None else "requests that were cut")
            self._conversations.stands(session, said if answer.finished_us is not None else exchange.messages)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _write(
        self, session: ProxySession, exchange: Exchange, answer: Answer, said: list[dict[str, Any]]
    ) -> None:
        dialogue = self._messages.parse(Found({"messages": said, "tools": exchange.tools}, ""))
        prompt, generated = self._rendered(dialogue)
        times_us = answer.arrivals_us(generated)
        if exchange.prompt_ids and answer.ids:
            own = exact_tokens(prompt, exchange.prompt_ids, self._encoder.spelled)
            said_ids = exact_tokens(generated, [token for token, _ in answer.ids], self._encoder.spelled)
            if own is not None and said_ids is not None:
                prompt, generated = own, said_ids
                times_us = [at_us for _, at_us in answer.ids]
        began_us = times_us[0] if times_us else answer.began_us or exchange.asked_us
        if session.recorder is None:
            session.recorder = SessionRecorder(
                self._out / f"{session.name}{RECORDING_SUFFIX}",
                recording=session.name,
                tokenizer=self._encoder.identity,
                model=exchange.model,
                time=session.time,
                provenance={
                    "engine": self._engine,
                    "tokens": "named by the engine, or spelled by the tokenizer",
                },
            )
        session.recorder.add(
            [_arrived(token, exchange.asked_us, began_us) for token in prompt],
            [_arrived(token, at_us, None) for token, at_us in zip(generated, times_us, strict=False)],
        )

    def _rendered(self, dialogue: Dialogue) -> tuple[list[Spelled], list[Spelled]]:
        """The last request of a dialogue: its whole prompt, and its answer."""
        context: list[Spelled] = []
        prompt, generated = context, context
        for request in self._encoder.requests(dialogue):
            prompt = [*context[: request.cached], *request.prompt]
            generated = list(request.generated)
            context = [*prompt, *generated]
        return prompt, generated


def _arrived(token: Spelled, at_us: int, ready_us: int | None) -> ArrivedToken:
    return ArrivedToken(token.id, token.kind, token.spelled, at_us, ready_us, token.special, token.media)
