"""Who computed what: cached prefixes resolved to their owners, and what requests may not say of each other.

Rules: seeds/000, "Current sequence memory", section 3. A request may begin with positions that an
earlier request computed; they belong to that request, through any chain of prefixes. Contradictions are
RecordingErrors that name both places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inkplex_data.errors import RecordingError
from inkplex_data.problems import recording_refusal


class Request(Protocol):
    """One model request of a recording: its computed tokens, column by column."""

    @property
    def call(self) -> int:
        """Number of the request, `call` in the file and in the tokens table."""
        ...

    @property
    def cached(self) -> tuple[int, int] | None:
        """(request, tokens): the first `tokens` positions came from that request's context."""
        ...

    @property
    def ids(self) -> NDArray[np.int32]: ...
    @property
    def kinds(self) -> NDArray[np.uint8]:
        """Index into `grid.KINDS`."""
        ...

    @property
    def bytes(self) -> Sequence[bytes]: ...
    @property
    def arrival_us(self) -> NDArray[np.int64]: ...
    @property
    def special(self) -> NDArray[np.bool_]: ...
    @property
    def media(self) -> NDArray[np.uint8]:
        """0 for text, else 1 + the index into the categories of `grid.MEDIA`."""
        ...

    @property
    def line(self) -> int:
        """Line of the recording file, for messages."""
        ...


def prefix_chain(requests: Sequence[Request]) -> list[tuple[int, int | None, int]]:
    """(request, the one whose context it begins with, how many tokens of that) of every request, by number."""
    ordered = sorted(requests, key=lambda request: request.call)
    return [(request.call, *(request.cached or (None, 0))) for request in ordered]


class Ownership:
    """The prefix chains of one recording, checked.

    `source` names the file in messages. Raises RecordingError for a number used twice, a prefix of an
    unknown request, a circle, a prefix longer than its owner, a request before its owner (in number, line
    or time), and an arrival that falls within a request.
    """

    def __init__(self, requests: Sequence[Request], *, source: str = "recording.jsonl") -> None:
        self._source = source
        self._by_number: dict[int, Request] = {}
        for request in requests:
            other = self._by_number.setdefault(request.call, request)
            if other is not request:
                what = f"request {request.call} is also on line {other.line}"
                raise self._error("recording-call-twice", request, what)
        self.numbers: tuple[int, ...] = tuple(sorted(self._by_number))
        self._check_chains()
        for number in self.numbers:
            self._check_prefix(self._by_number[number])
            self._check_arrivals(self._by_number[number])

    def prefix_tokens(self, number: int) -> int:
        """How many positions of the request's context other requests computed."""
        cached = self._by_number[number].cached
        return cached[1] if cached else 0

    def context_tokens(self, number: int) -> int:
        """Length of the request's context: its prefix and its own tokens."""
        return self.prefix_tokens(number) + len(self._by_number[number].ids)

    def owner_of(self, number: int, position: int) -> int:
        """The request that computed `position` of the context of request `number`."""
        if not 0 <= position < self.context_tokens(number):
            raise IndexError(
                f"request {number} has {self.context_tokens(number)} positions, not {position + 1}"
            )
        while (cached := self._by_number[number].cached) and position < cached[1]:
            number = cached[0]
        return number

    def _error(self, code: str, request: Request, what: str) -> RecordingError:
        return recording_refusal(code, what, f"{self._source}:{request.line}")

    def _check_chains(self) -> None:
        settled: set[int] = set()
        for number in self.numbers:
            path: list[int] = []
            at: int | None = number
            while at is not None and at not in settled:
                request = self._by_number[at]
                if at in path:
                    circle = [self._by_number[one] for one in path[path.index(at) :]]
                    what = "the prefixes form a circle: " + ", ".join(
                        f"request {one.call} (line {one.line})" for one in [*circle, request]
                    )
                    raise self._error("recording-prefix-cycle", request, what)
                path.append(at)
                cached = request.cached
                at = cached[0] if cached else None
                if at is not None and at not in self._by_number:
                    what = f"request {request.call} begins with a prefix of request {at}, which is not in the recording"
                    raise self._error("recording-prefix-unknown", request, what)
            settled.update(path)

    def _check_prefix(self, request: Request) -> None:
        if not request.cached:
            return
        owner, tokens = self._by_number[request.cached[0]], request.cached[1]
        if tokens > self.context_tokens(owner.call):
            what = (
                f"request {request.call} begins with {tokens} tokens of request {owner.call} (line {owner.line}), "
                f"which has {self.context_tokens(owner.call)}"
            )
            raise self._error("recording-prefix-too-long", request, what)
        if owner.call > request.call or owner.line > request.line:
            what = f"request {request.call} comes before request {owner.call} (line {owner.line}), the owner of its prefix"
            raise self._error("recording-prefix-order", request, what)
        if not tokens or not len(request.ids):
            return
        last = self._by_number[self.owner_of(request.call, tokens - 1)]
        last_us = int(last.arrival_us[tokens - 1 - self.prefix_tokens(last.call)])
        if request.arrival_us[0] < last_us:
            what = (
                f"request {request.call} has a token at {request.arrival_us[0]} µs, before position {tokens - 1} "
                f"of its prefix arrived with request {last.call} (line {last.line}) at {last_us} µs"
            )
            raise self._error("recording-prefix-order", request, what)

    def _check_arrivals(self, request: Request) -> None:
        # Compared, not subtracted: a difference of int64 times can overflow.
        falls = np.flatnonzero(request.arrival_us[1:] < request.arrival_us[:-1])
        if len(falls):
            at = int(falls[0])
            position = at + self.prefix_tokens(request.call)
            what = (
                f"request {request.call}: position {position + 1} arrives at {request.arrival_us[at + 1]} µs, "
                f"before position {position} at {request.arrival_us[at]} µs"
            )
            raise self._error("recording-arrival-order", request, what)
