"""A request that passes through the proxy and what comes back, in the words of one interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from inkplex_data.memory.record.answers import Answer


@dataclass
class Exchange:
    """`messages` and `tools` as the chat interface has them; `answers` by the number of the choice, of `choices`."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    asked_us: int
    choices: int = 1
    answers: dict[int, Answer] = field(default_factory=dict)
    model: str | None = None
    prompt_ids: list[int] | None = None
    """The tokens of the prompt, where the engine names them."""

    def answer(self, index: int = 0) -> Answer:
        return self.answers.setdefault(index, Answer())

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for has arrived."""
        done = [answer for answer in self.answers.values() if answer.finished_us is not None]
        return len(done) >= self.choices

    def noted(self, body: Mapping[str, Any]) -> None:
        """Note which model answers, and to which tokens."""
        if isinstance(body.get("model"), str) and self.model is None:
            self.model = body["model"]
        if self.prompt_ids is None:
            self.prompt_ids = token_ids(body.get("prompt_token_ids"))


class Dialect(Protocol):
    """One interface of engines. What it does not understand it leaves out; it raises nothing."""

    def asked(self, body: Mapping[str, Any], asked_us: int) -> Exchange | None:
        """The exchange that a request's body begins, None for a body that asks for no chat."""
        ...

    def event(self, exchange: Exchange, data: Mapping[str, Any], at_us: int) -> None:
        """An event of a streamed answer."""
        ...

    def whole(self, exchange: Exchange, body: Mapping[str, Any], at_us: int) -> None:
        """An answer that came at once: all of it arrived then."""
        ...


def token_ids(value: Any) -> list[int] | None:
    """The ids of a field that holds a list of them, None for any other."""
    if isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 31 for one in value):
        return value
    return None


def texts(value: Any) -> str:
    """The text of a field that holds text, or nothing."""
    return value if isinstance(value, str) else ""


def items(value: Any) -> list[dict[str, Any]]:
    """The objects of a field that holds a list of them, or nothing."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
