"""When every token of a dialogue arrived: as recorded, or by a declared schedule where the trace has no times.

A schedule makes a plausible session, and nothing more: the recording says `times: constructed` and holds the
schedule, so that no result of it is taken for a measurement (seeds/000, "Minimal dataset and private stream
contract": an offline schedule is retained, and labelled as constructed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any

from pydantic import Field, ValidationError

from inkplex_data.clock import US_PER_S
from inkplex_data.corpus.fields import Model
from inkplex_data.corpus.traces.dialogue import Dialogue, Message
from inkplex_data.corpus.traces.dialogue_requests import DialogueRequest
from inkplex_data.errors import ConfigError
from inkplex_data.faults import faults_of
from inkplex_data.problems import refusal

Rate = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Pause = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]

_ABSOLUTE_US = 100_000_000 * US_PER_S
"""Times from here on count from 1970; smaller ones count from the session's start already."""


class TraceSchedule(Model):
    """How long things take where a trace does not say. The defaults are round numbers of present systems."""

    thinking_tokens_per_s: Rate = Field(default=60.0, description="sampling speed of thinking")
    tool_call_tokens_per_s: Rate = Field(default=60.0, description="sampling speed of tool calls")
    reply_tokens_per_s: Rate = Field(default=60.0, description="sampling speed of replies")
    prefill_s: Pause = Field(default=0.08, description="fixed part of computing a prompt")
    prefill_tokens_per_s: Rate = Field(
        default=8_000.0, description="speed of computing a prompt's new tokens"
    )
    tool_latency_s: Pause = Field(default=1.2, description="from the end of a tool call to its result")
    # 150 words a minute, an ordinary rate of conversational English.
    user_words_per_s: Rate = Field(default=2.5, description="how fast the user speaks")
    reply_words_per_s: Rate = Field(
        default=2.5, description="how fast a reply is heard before the user answers"
    )
    user_pause_s: Pause = Field(
        default=0.6, description="between the end of a reply and the user's first word"
    )

    def token_us(self, kind: str) -> float:
        """Microseconds a sampled token of `kind` takes."""
        rate = {
            "thinking": self.thinking_tokens_per_s,
            "tool_call": self.tool_call_tokens_per_s,
        }.get(kind, self.reply_tokens_per_s)
        return US_PER_S / rate


def schedule_of(settings: Mapping[str, Any]) -> TraceSchedule:
    """The default schedule with `settings`. Raises ConfigError that names every fault."""
    try:
        return TraceSchedule.model_validate(dict(settings))
    except ValidationError as error:
        raise ConfigError(
            "the schedule has faults",
            faults=[str(fault) for fault in faults_of(error, dict(settings), TraceSchedule)],
            next_step="Known keys: " + ", ".join(TraceSchedule.model_fields) + ".",
        ) from error


@dataclass(frozen=True)
class TimedRequest:
    """When the tokens of a request were available, in µs of session time.

    `prompt_at_us` and `generated_at_us` have one entry a token. The rows of the whole prompt are there at
    `ready_at_us`: with recorded times, when the last message of it was, since the computing itself was not
    measured.
    """

    request: DialogueRequest
    prompt_at_us: tuple[int, ...]
    ready_at_us: int
    generated_at_us: tuple[int, ...]


@dataclass(frozen=True)
class Timed:
    """A dialogue's requests on the session clock. `recorded`: every message was complete at a time of its own, and no
    token was placed within one.

    `starts_at_us` is the moment of the trace at which the session clock is zero, None without times. `events_us`: for
    each message when what it tells of was over, in µs of session time, None where the trace does not say.
    """

    requests: tuple[TimedRequest, ...]
    recorded: bool
    starts_at_us: int | None
    events_us: tuple[int | None, ...]

    @property
    def end_us(self) -> int:
        """Session time of the last token."""
        return max(
            (us for request in self.requests[-1:] for us in (request.ready_at_us, *request.generated_at_us)),
            default=0,
        )


def time_requests(dialogue: Dialogue, requests: Iterable[DialogueRequest], schedule: TraceSchedule) -> Timed:
    """Put the requests of `dialogue` on the session clock.

    Where it is recorded when a message was complete, all its tokens arrive then, and never before; those of an answer
    whose beginning is recorded as well are spread evenly from then on. A prompt is computed by the time at which its
    answer begins. Where every message has an end (but for leading setup, which was there from the start) and no answer
    was spread, the times are recorded. Where some have none, the schedule places those, from their beginnings on and
    between the recorded times.

    Raises CallRefused with code trace-time where a message is timed before an earlier one.
    """
    known, starts_at_us = _known(dialogue)
    begun = [
        None if message.starts_us is None else message.starts_us - (starts_at_us or 0)
        for message in dialogue.messages
    ]
    clock = _Clock(dialogue.messages, known, begun, schedule)
    timed = tuple(clock.request(request) for request in requests)
    events = tuple(
        None if message.event_us is None else message.event_us - (starts_at_us or 0)
        for message in dialogue.messages
    )
    return Timed(timed, clock.recorded, starts_at_us, events)


def _known(dialogue: Dialogue) -> tuple[list[int | None], int | None]:
    """Session time of every message whose time is recorded; checked to run forward."""
    messages = dialogue.messages
    known = [message.at_us for message in messages]
    timed = [us for message in messages for us in (message.starts_us, message.at_us) if us is not None]
    if not timed:
        return known, None
    starts_at_us = dialogue.zero_us
    if starts_at_us is None:
        starts_at_us = timed[0] if timed[0] >= _ABSOLUTE_US else 0
    latest: int | None = None
    for index, us in enumerate(known):
        if us is None:
            continue
        if latest is not None and us < (known[latest] or 0):
            what = (
                f"{messages[index].place} has the time {us} µs, before {messages[latest].place} "
                f"at {known[latest]} µs"
            )
            raise refusal("trace-time", what)
        latest = index
    known = [None if us is None else us - starts_at_us for us in known]
    for index, message in enumerate(messages):
        if known[index] is not None or message.role != "system":
            break
        known[index] = min(0, timed[0] - starts_at_us)
    return known, starts_at_us


class _Clock:
    """Walks through the session; all times in µs."""

    def __init__(
        self,
        messages: Sequence[Message],
        known: Sequence[int | None],
        begun: Sequence[int | None],
        schedule: TraceSchedule,
    ) -> None:
        self._messages = messages
        self._known = known
        self._begun = begun
        self._schedule = schedule
        is_spread = any(
            message.role == "assistant" and us not in (None, end)
            for message, us, end in zip(messages, begun, known, strict=True)
        )
        self.recorded = all(us is not None for us in known) and not is_spread
        self._available: list[int] = []
        self._now = self._answered_us = self._heard_us = min(
            us for us in (0, *known, *begun) if us is not None
        )
        # The next recorded time at or after each message: nothing before it can take longer.
        self._bounds: list[int | None] = [None] * (len(known) + 1)
        for index in range(len(known) - 1, -1, -1):
            later = self._bounds[index + 1]
            if index + 1 < len(known) and begun[index + 1] is not None:
                later = begun[index + 1] if later is None else min(later, begun[index + 1] or 0)
            self._bounds[index] = known[index] if known[index] is not None else later

    def request(self, request: DialogueRequest) -> TimedRequest:
        """Times of the next request; requests come in order."""
        end = len(self._messages) if request.message is None else request.message
        while len(self._available) < end:
            self._available.append(self._arrive(len(self._available)))
        # No row of a request is computed before the last message of its prompt is there.
        asked_us = max(self._now, self._available[end - 1] if end else self._now)
        at_us = [
            self._available[token.message] if token.message < end else asked_us for token in request.prompt
        ]
        ready_us = asked_us
        if not self.recorded:
            rows_us = len(request.prompt) * US_PER_S / self._schedule.prefill_tokens_per_s
            ready_us = self._bounded(asked_us + round(self._schedule.prefill_s * US_PER_S + rows_us), end)
        begun_us = self._begun[end] if request.message is not None else None
        if begun_us is not None:
            # Its first token was sampled then, so the rows before it were there.
            ready_us = max(asked_us, min(ready_us, begun_us) if not self.recorded else begun_us)
        generated_us = self._sample(request, ready_us)
        self._now = self._answered_us = generated_us[-1] if generated_us else ready_us
        if request.message is not None:
            self._available.append(self._now)
        return TimedRequest(request, tuple(at_us), ready_us, tuple(generated_us))

    def _arrive(self, index: int) -> int:
        """When a message that the model did not write was complete."""
        message, us, schedule = self._messages[index], self._known[index], self._schedule
        if us is None:
            us, begun_us = self._now, self._begun[index]
            words_us = round(len(message.text.split()) * US_PER_S / schedule.user_words_per_s)
            if begun_us is not None:
                us = max(us, begun_us) + (words_us if message.role == "user" else 0)
            elif message.role == "user":
                us = max(self._now, self._heard_us) + round(schedule.user_pause_s * US_PER_S) + words_us
            elif message.role == "tool":
                us = max(self._now, self._answered_us + round(schedule.tool_latency_s * US_PER_S))
            us = self._bounded(us, index)
        self._now = max(self._now, us)
        return us

    def _sample(self, request: DialogueRequest, ready_us: int) -> list[int]:
        """When each generated token was there; what is heard of the reply is noted."""
        if request.message is None:
            return []
        known_us = self._known[request.message]
        begun_us, count = self._begun[request.message], len(request.generated)
        first_us = ready_us if begun_us is None else max(ready_us, begun_us)
        if known_us is not None and begun_us is not None:
            span_us = max(known_us - first_us, 0)
            times = [known_us - span_us + span_us * index // count for index in range(1, count + 1)]
        elif known_us is not None:
            times = [known_us] * count
        else:
            elapsed = accumulate(self._schedule.token_us(token.kind) for token in request.generated)
            times = [max(ready_us, self._bounded(first_us + round(us), request.message)) for us in elapsed]
        spoken = len(self._messages[request.message].text.split())
        first_us = next(
            (us for us, token in zip(times, request.generated, strict=True) if token.kind == "reply"),
            ready_us,
        )
        self._heard_us = first_us + round(spoken * US_PER_S / self._schedule.reply_words_per_s)
        return times

    def _bounded(self, us: int, index: int) -> int:
        """`us`, but not after the next recorded time; a message may begin before an earlier one is complete."""
        bound = self._bounds[index]
        return us if bound is None else max(self._now, min(us, bound))
