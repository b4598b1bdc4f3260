"""What a trace reader gets and gives: dialogues of messages, whatever the file called them.

Each format is one module of `readers/` that sets `FORMAT`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from inkplex_data.clock import seconds_to_us
from inkplex_data.errors import CallRefused
from inkplex_data.faults import short
from inkplex_data.problems import refusal

Role = Literal["system", "user", "assistant", "tool", "other"]
Media = Literal["audio", "image"]
Moment = Literal["start", "end"]
"""What the one time of a message is: when it began, or when it was complete."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS: Final = 100_000_000_000
"""Numbers from here on are milliseconds since 1970: as seconds they would lie past the year 5000."""
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Part:
    """A stretch of a message's content: text, or one picture or sound, of which the trace keeps no pixels."""

    text: str = ""
    media: Media | None = None


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. `arguments` is JSON text where the trace has an object, else its text as it stands."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Message:
    """One message. `name` is the tool of a result, or what an unknown role was called.

    `starts_us` and `at_us` are the recorded moments at which it began and at which it was complete, None where the trace
    has none. `moment_us` is one of the two: which, the trace does not say. `event_us`: when what it tells of was over,
    as speech was before its transcript, None where the trace does not say. `place` is its JSON pointer, for messages.
    """

    role: Role
    place: str
    parts: tuple[Part, ...] = ()
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""
    starts_us: int | None = None
    at_us: int | None = None
    moment_us: int | None = None
    event_us: int | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Dialogue:
    """One recorded task session as messages. `tools` are the declarations that the model was given.

    `unread`: by code and name how often something stands in it that is not understood and so is not in the messages.
    `zero_us`: the moment of the trace at which its audio began and the session clock is zero, None where it has none.
    """

    messages: tuple[Message, ...]
    place: str
    tools: tuple[dict[str, Any], ...] = ()
    details: dict[str, str | int | float | bool] = field(default_factory=dict)
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)
    zero_us: int | None = None

    def with_moments(self, meaning: Moment) -> Dialogue:
        """With every message's one moment as its beginning or its end."""
        return replace(self, messages=tuple(_placed(message, meaning) for message in self.messages))


def _placed(message: Message, meaning: Moment) -> Message:
    moment_us = message.moment_us
    if moment_us is None:
        return message
    if meaning == "end":
        return replace(message, moment_us=None, at_us=moment_us if message.at_us is None else message.at_us)
    return replace(
        message, moment_us=None, starts_us=moment_us if message.starts_us is None else message.starts_us
    )


class Unread:
    """Counts what a trace holds and its reader does not understand. Values that say nothing are not counted."""

    FIELD: Final = "trace-field-unknown"
    ROLE: Final = "trace-role-unknown"

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def fields(self, data: Mapping[str, Any], known: Collection[str], of: str = "") -> None:
        """Count the fields of `data` that are not `known`; `of` names the part that it is."""
        for name, value in data.items():
            if name not in known and value not in (None, "", [], {}, False):
                self.field(f"{of}{name}")

    def field(self, name: str) -> None:
        self.counts[self.FIELD, name] += 1

    def role(self, name: str) -> None:
        self.counts[self.ROLE, name] += 1


@dataclass(frozen=True)
class Found:
    """A dialogue that was found in a file and not read yet. `id` is its own name, "" where it has none."""

    data: Any
    place: str
    id: str = ""


@dataclass(frozen=True)
class TraceFormat:
    """One format. `find` lists the dialogues of a document, None where it is of another format.

    `gather` does so for all documents of a file with their places, where a dialogue lies in several: logs with a line
    for each event or request. `priority`: formats that look at more are asked before those that take anything.
    """

    name: str
    title: str
    parse: Callable[[Found], Dialogue]
    find: Callable[[Any, str], Iterator[Found] | None] = lambda document, place: None
    gather: Callable[[Sequence[tuple[Any, str]]], Iterable[Found] | None] | None = None
    priority: int = 0


def bad_message(place: str, rule: str, value: object = None) -> CallRefused:
    """The refusal of a dialogue because of what stands at `place`."""
    got = "" if value is None else f" (got {short(value)})"
    return refusal("trace-message", f"{place or '/'} {rule}{got}")


def own_id(data: dict[str, Any], *names: str) -> str:
    """The first of `names` in `data` that holds a name or number, "" where none does."""
    for name in names:
        value = data.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return ""


def time_us(value: object, place: str) -> int:
    """A time of a trace in µs: seconds, milliseconds since 1970, or ISO 8601 (UTC where it says no zone).

    Raises CallRefused with code trace-time.
    """
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            us = seconds_to_us(value)
            return us // 1000 if abs(value) >= _MILLISECONDS else us
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            us = seconds_to_us(value.strip())
            return us // 1000 if abs(us) >= _MILLISECONDS * 1_000_000 else us
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return (moment - _EPOCH) // timedelta(microseconds=1)
        raise ValueError(f"{value!r} is not a time")
    except (ValueError, OverflowError) as error:
        what = f"{place} must be seconds, milliseconds since 1970 or an ISO 8601 time (got {short(value)})"
        raise refusal("trace-time", what) from error
