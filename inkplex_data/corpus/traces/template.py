"""Dialogues rendered by a tokenizer's own chat template, and which message each token of the result is of.

A template is a program: it may move tool declarations, drop earlier thinking, or write a message otherwise
once it is not the last. So every request is rendered whole, what it shares with the previous one counts as
cached, and a token belongs to the first message without whose rendering it would not be there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inkplex_data.corpus.recordings.recording_models import Kind
from inkplex_data.corpus.recordings.vocabulary import Speller
from inkplex_data.corpus.traces.dialogue import Dialogue, Message
from inkplex_data.corpus.traces.dialogue_requests import (
    KIND_OF_ROLE,
    DialogueRequest,
    Spelled,
    call_arguments,
)
from inkplex_data.errors import CallRefused, ConfigError
from inkplex_data.libraries import require
from inkplex_data.problems import refusal


class TemplateEncoder:
    """A tokenizer with its `apply_chat_template`: a folder, or the id of a model on the hub."""

    def __init__(self, source: str | Path) -> None:
        """Raises ConfigError for a tokenizer that cannot be loaded or has no chat template."""
        transformers = require("transformers", extra="memory", needed_for="a tokenizer's chat template")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(source), local_files_only=Path(source).is_dir()
            )
            self._backend = self._tokenizer.backend_tokenizer
        except Exception as error:  # whatever a broken folder makes the library raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(f"its tokenizer cannot be loaded ({reason})", where=str(source)) from error
        if not self._tokenizer.chat_template:
            raise ConfigError(
                "its tokenizer has no chat template",
                where=str(source),
                next_step="Give its tokenizer.json alone to use Inkling's own framing.",
            )
        self._speller = Speller(self._backend)
        template = self._tokenizer.chat_template
        digest = hashlib.sha256(self._backend.to_str().encode())
        digest.update(str(template).encode())
        self.identity = f"{Path(source).name}:{digest.hexdigest()}"
        self._special = {
            token for token, added in self._backend.get_added_tokens_decoder().items() if added.special
        }

    def spelled(self, token: int) -> tuple[bytes, bool] | None:
        spelled = self._speller.token(token, self._backend.id_to_token(token))
        return None if spelled is None else (spelled, token in self._special)

    def requests(self, dialogue: Dialogue) -> Iterator[DialogueRequest]:
        session = _Session(self._tokenizer, dialogue)
        context: list[int] = []
        last = -1
        for index, message in enumerate(dialogue.messages):
            if message.role == "assistant":
                yield self._request(session, context, index)
                last = index
        if last < len(dialogue.messages) - 1:
            yield self._request(session, context, None)

    def _request(self, session: _Session, context: list[int], index: int | None) -> DialogueRequest:
        """The next request; `context` becomes its whole context."""
        text, asked = session.request(index)
        encoding = self._backend.encode(text, add_special_tokens=False)
        ends, parts = session.limits(text, index)
        tokens: list[Spelled] = []
        answered = len(encoding.ids)
        for at, (token, spelled, (_, end)) in enumerate(
            zip(encoding.ids, self._speller.spell(encoding, text), encoding.offsets, strict=True)
        ):
            kind, message = parts[min(bisect_left(ends, end), len(ends) - 1)]
            tokens.append(Spelled(token, spelled, kind, message, token in self._special))
            if end > asked:
                answered = min(answered, at)
        shared = min(len(context), answered)
        cached = next((i for i in range(shared) if context[i] != encoding.ids[i]), shared)
        context[:] = encoding.ids
        return DialogueRequest(cached, tuple(tokens[cached:answered]), tuple(tokens[answered:]), index)


class _Session:
    """Renders the beginnings of one dialogue."""

    def __init__(self, tokenizer: Any, dialogue: Dialogue) -> None:
        self._tokenizer = tokenizer
        self._dialogue = dialogue
        self._messages = [_as_openai(message) for message in dialogue.messages]
        self._rendered: dict[int, str] = {}

    def request(self, index: int | None) -> tuple[str, int]:
        """The text of a request with its answer, and how many characters of it are the prompt."""
        if index is None:
            text = self._upto(len(self._messages))
            return text, len(text)
        text = self._upto(index + 1)
        # Templates may refuse an empty list; then the first answer opens the text.
        asked = _common(text, self._render(self._messages[:index], prompt=True)) if index else 0
        return text, asked

    def limits(self, text: str, index: int | None) -> tuple[list[int], list[tuple[Kind, int]]]:
        """Where in `text` each message, and each part of an answer, ends; and (kind, message) of each."""
        ends: list[int] = []
        parts: list[tuple[Kind, int]] = []
        count = len(self._messages) if index is None else index + 1

        def close(rendered: list[dict[str, Any]], kind: Kind, at: int) -> None:
            following = self._messages[at + 1]["role"] if at + 1 < count else None
            ends.append(max(self._reach(text, rendered, following), ends[-1] if ends else 0))
            parts.append((kind, at))

        for at in range(count):
            message = self._dialogue.messages[at]
            for kind, shortened in _shortened(message):
                close([*self._messages[:at], _as_openai(shortened)], kind, at)
            close(self._messages[: at + 1], "tool_call" if message.calls else KIND_OF_ROLE[message.role], at)
        return ends, parts

    def _reach(self, text: str, messages: list[dict[str, Any]], following: str | None) -> int:
        """How far into `text` the rendering of `messages` goes along with it."""
        whole = messages == self._messages[: len(messages)]
        rendered = self._upto(len(messages)) if whole else self._render(messages)
        reached = _common(text, rendered)
        if following is None or reached == len(rendered):
            return reached
        # The last message may be written otherwise than one with another behind it. One of another role
        # than the message that follows, so that no part of that one's opening counts as shared.
        other = {"role": "assistant" if following == "user" else "user", "content": "-"}
        try:
            return max(reached, _common(text, self._render([*messages, other])))
        except CallRefused:
            return reached

    def _upto(self, count: int) -> str:
        if count not in self._rendered:
            self._rendered[count] = self._render(self._messages[:count])
        return self._rendered[count]

    def _render(self, messages: list[dict[str, Any]], *, prompt: bool = False) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                messages,
                tools=[_as_tool(tool) for tool in self._dialogue.tools] or None,
                tokenize=False,
                add_generation_prompt=prompt,
            )
        except Exception as error:  # a template raises what it likes
            what = f"{self._dialogue.place or '/'}: the chat template refuses its messages ({error})"
            raise refusal("trace-template", what) from error
        return str(text)


def _shortened(message: Message) -> Iterator[tuple[Kind, Message]]:
    """The message without its last parts, with the kind of what is left at its end."""
    if message.thinking and (message.parts or message.calls):
        yield "thinking", Message("assistant", message.place, thinking=message.thinking)
    if message.parts and message.calls:
        yield "reply", Message("assistant", message.place, message.parts, message.thinking)


def _as_openai(message: Message) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "role": "system" if message.role == "other" else message.role,
        "content": message.text,
    }
    if any(part.media for part in message.parts):
        entry["content"] = [
            {"type": "text", "text": part.text} if part.media is None else {"type": part.media}
            for part in message.parts
        ]
    if message.thinking:
        entry["reasoning_content"] = message.thinking
    if message.calls:
        entry["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if (arguments := call_arguments(call)) is None else arguments,
                },
            }
            for call in message.calls
        ]
    if message.role == "tool":
        entry |= {"tool_call_id": message.call_id, "name": message.name}
    return entry


def _as_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return tool if "function" in tool else {"type": "function", "function": tool}


def _common(one: str, other: str) -> int:
    """Length of what two texts begin with in common."""
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low
