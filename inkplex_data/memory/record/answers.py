"""What an engine answered, as it arrived: thinking, reply and tool calls in pieces with times, and the tokens of these.

A stream says when its text arrived, not when each token did. A token is there when all its bytes are; what stands between
the parts of an answer, when the next part begins; and a tool call, whose spelling differs between engines and templates,
when all of it is. So none is ever placed before it had arrived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, Protocol

Part = Literal["thinking", "reply", "tool_call"]


class SpelledToken(Protocol):
    """A token of an answer, as `corpus.traces` spells it."""

    @property
    def kind(self) -> str: ...
    @property
    def spelled(self) -> bytes: ...


@dataclass
class AnswerPart:
    """Consecutive text of one kind. `ends` and `times_us`: how many bytes had arrived when."""

    part: Part
    index: int = 0
    text: str = ""
    name: str = ""
    id: str = ""
    ends: list[int] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)

    def add(self, text: str, at_us: int) -> None:
        self.text += text
        self.ends.append((self.ends[-1] if self.ends else 0) + len(text.encode(errors="replace")))
        self.times_us.append(at_us)

    def arrived_us(self, end: int) -> int:
        """When the first `end` bytes were there."""
        return self.times_us[min(bisect_left(self.ends, end), len(self.times_us) - 1)]


@dataclass
class Answer:
    """One choice of an engine's answer. `finished_us` None: the connection was cut."""

    parts: list[AnswerPart] = field(default_factory=list)
    finished_us: int | None = None
    began_us: int | None = None
    ids: list[tuple[int, int]] = field(default_factory=list)
    """The tokens that the engine names itself, and when they arrived."""

    def add(self, part: Part, text: str, at_us: int, *, index: int = 0, name: str = "", id: str = "") -> None:  # noqa: A002
        """Text that arrived: of a tool call (`index`) its arguments, and once its `name` and `id`."""
        self.began_us = at_us if self.began_us is None else self.began_us
        last = next((one for one in reversed(self.parts) if (one.part, one.index) == (part, index)), None)
        if last is None or (part != "tool_call" and last is not self.parts[-1]):
            last = AnswerPart(part, index)
            self.parts.append(last)
        last.name, last.id = last.name or name, last.id or id
        last.add(text, at_us)

    def finish(self, at_us: int) -> None:
        """All of it has arrived."""
        self.began_us = at_us if self.began_us is None else self.began_us
        self.finished_us = at_us

    @property
    def kept(self) -> list[AnswerPart]:
        """The parts that arrived: without the tool call within which the connection was cut."""
        if self.finished_us is None and self.parts and self.parts[-1].part == "tool_call":
            return self.parts[:-1]
        return self.parts

    def message(self) -> dict[str, Any]:
        """The answer as a chat message."""
        texts = {
            part: "".join(one.text for one in self.kept if one.part == part) for part in ("thinking", "reply")
        }
        message: dict[str, Any] = {"role": "assistant", "content": texts["reply"]}
        if texts["thinking"]:
            message["reasoning_content"] = texts["thinking"]
        calls = [one for one in self.kept if one.part == "tool_call"]
        if calls:
            message["tool_calls"] = [
                {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.text}}
                for one in calls
            ]
        return message

    def arrivals_us(self, tokens: Sequence[SpelledToken]) -> list[int]:
        """When each of the answer's tokens was there; shorter than `tokens` where the connection was cut before the
        rest. Session µs, never falling."""
        found: list[int] = []
        for kind, group in groupby(tokens, key=lambda token: token.kind):
            parts = [one for one in self.kept if one.part == kind]
            found += self._run([token.spelled for token in group], parts)
            if len(found) < len(tokens) and self.finished_us is None and parts and parts[-1] is self.kept[-1]:
                break
        latest = 0
        for index, at_us in enumerate(found):
            latest = found[index] = max(latest, at_us)
        return found

    def _run(self, spelled: Sequence[bytes], parts: Sequence[AnswerPart]) -> Iterator[int]:
        """Times of consecutive tokens of one kind, which spell `parts`."""
        closed_us = self._closed_us(parts)
        text = "".join(one.text for one in parts).encode(errors="replace")
        whole = b"".join(spelled)
        at = whole.find(text) if text and parts[0].part != "tool_call" else -1
        skipped = 0
        if at < 0 and text.strip() and parts[0].part != "tool_call":
            at, skipped = whole.find(text.strip()), len(text) - len(text.lstrip())
            text = text.strip()
        end = 0
        for one in spelled:
            start, end = end, end + len(one)
            if at < 0 or start >= at + len(text):
                if closed_us is None:
                    return
                yield closed_us
            else:
                yield _joined(parts, skipped + max(0, min(end - at, len(text))))

    def _closed_us(self, parts: Sequence[AnswerPart]) -> int | None:
        """When something came after `parts`; None where nothing did before the connection was cut."""
        if not parts:
            return self.finished_us
        after = self.kept[self.kept.index(parts[-1]) + 1 :]
        return after[0].times_us[0] if after else self.finished_us


def _joined(parts: Sequence[AnswerPart], end: int) -> int:
    """When the first `end` bytes of all parts were there."""
    for one in parts:
        if end <= one.ends[-1] or one is parts[-1]:
            return one.arrived_us(end)
        end -= one.ends[-1]
    raise AssertionError("no parts")
