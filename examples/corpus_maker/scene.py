"""A scene is a call, the work behind it, and what a manifest says of both."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from corpus_maker.call import Call, Turn
from corpus_maker.work import Part, Request, Segment, Work
from inkplex_data.clock import FRAME_US

TRANSCRIPT_LAG_US: Final = 240_000
"""The reasoning model has a caller's word this long after the word was said."""

ASSISTANT: Final = "<|start|>assistant"


@dataclass
class Scene:
    """One call of the corpus. `starts_us` is the session time of the call's first sample."""

    id: str
    family: str
    split: str
    role: str | None
    voice: str | None
    call: Call
    work: Work
    starts_us: int
    duration_us: int = 0
    response: Turn | None = None
    """Where the answer begins that needs the memory: generation starts here in evaluation."""
    missing_caller: list[tuple[int, int]] = field(default_factory=list)
    """Intervals in µs in which the caller's line was down."""
    text_conditions: dict[str, str] | None = None
    failed: set[str] = field(default_factory=set)
    """Segments that say that a tool failed."""
    superseded: dict[str, str] = field(default_factory=dict)
    """Segments that another one has taken the place of."""

    def session(self, at_us: int) -> int:
        """Session time of a time of the call."""
        return self.starts_us + at_us

    def heard(self, turn: Turn, *, before: str = "", after: str = "<|end|>") -> Part:
        """A caller's turn as a user message, each word available a moment after it was said."""
        times = [self.session(word.end_us) + TRANSCRIPT_LAG_US for word in turn.words]
        return Part("user", f"{before}<|start|>user<|message|>{turn.said}{after}", times, turn.said)

    def after(self, segment: Segment, delay_us: int) -> int:
        """The time of the call that lies `delay_us` after `segment` had arrived, on the next whole millisecond."""
        return -(-(segment.arrival_us - self.starts_us + delay_us) // 1_000) * 1_000

    def finish(self, *, tail_us: int = 700_000) -> Scene:
        """Set the duration, after proving that nothing is said before its evidence could be seen.

        A token that arrives within a frame is seen by the next one, so a word may begin two frames later.
        """
        self.duration_us = max(turn.end_us for turn in self.call.turns) + tail_us
        arrivals = {segment.id: segment.arrival_us for segment in self.work.segments()}
        for turn in self.call.turns:
            for evidence in turn.supported_by:
                if self.session(turn.start_us) < arrivals[evidence] + 2 * FRAME_US:
                    raise ValueError(f"{self.id}: {turn.said!r} is said before {evidence} has arrived")
        return self


def setup(policy: str, tools: str) -> Part:
    """The system message: what the model may do and say, and its tools."""
    text = f"<|start|>system<|message|>{policy}\n\n# Tools\n\nnamespace functions {{\n{tools}\n}}<|end|>"
    return Part("setup", text, 0)


def assistant(at_us: int) -> Part:
    """The opening of a message that the model is to write."""
    return Part("other", ASSISTANT, at_us)


def think(request: Request, text: str) -> Segment:
    return request.generate("thinking", f"<|channel|>analysis<|message|>{text}<|end|>")


def call_tool(request: Request, name: str, **arguments: Any) -> Segment:
    return request.generate("tool_call", ASSISTANT + _tool_call(name, arguments))


def reply(request: Request, text: str) -> Segment:
    return request.generate("reply", f"{ASSISTANT}<|channel|>final<|message|>{text}<|return|>")


def result(name: str, content: dict[str, Any], at_us: int) -> Part:
    """What a tool returned, available at session time `at_us`."""
    text = f"<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>{_json(content)}<|end|>"
    return Part("tool_result", text, at_us)


def retold(kind: str, text: str, at_us: int) -> Part:
    """A message of an earlier turn that is computed anew, because the thinking before it was dropped."""
    return Part(kind, text, at_us)


def retold_tool_call(name: str, arguments: dict[str, Any], at_us: int) -> Part:
    return Part("tool_call", _tool_call(name, arguments), at_us)


def retold_reply(text: str, at_us: int) -> Part:
    return Part("reply", f"{ASSISTANT}<|channel|>final<|message|>{text}<|end|>", at_us)


def kept_until_thinking(request: Request) -> int:
    """Positions of `request` before its first thinking token: what a later turn can reuse."""
    first = next(segment.first for segment in request.segments.values() if segment.kind == "thinking")
    return request.positions - len(request.tokens) + first


def _tool_call(name: str, arguments: dict[str, Any]) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(arguments)}<|call|>"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
