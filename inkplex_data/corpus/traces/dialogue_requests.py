"""A dialogue as model requests: which tokens each computed, in which order, and of which kind.

Every assistant message is one request: its prompt, of which the part that an earlier request computed is
cached, and what the model answered. Messages after the last answer are the prompt of a request without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.corpus.recordings.recording_models import Kind
from inkplex_data.corpus.recordings.vocabulary import (
    AUDIO,
    AUDIO_END,
    CONTENT_AUDIO,
    CONTENT_IMAGE,
    CONTENT_TEXT,
    CONTENT_THINKING,
    CONTENT_TOOL_JSON,
    CONTENT_TOOL_TEXT,
    CONTENT_XML,
    END_MESSAGE,
    END_SAMPLING,
    IMAGE,
    MESSAGE_MODEL,
    MESSAGE_SYSTEM,
    MESSAGE_TOOL,
    MESSAGE_USER,
    Vocabulary,
)
from inkplex_data.corpus.traces.dialogue import Dialogue, Media, Message, ToolCall
from inkplex_data.faults import FaultError

KIND_OF_ROLE: dict[str, Kind] = {
    "system": "setup",
    "user": "user",
    "assistant": "reply",
    "tool": "tool_result",
    "other": "other",
}
_OPENERS = {
    "system": MESSAGE_SYSTEM,
    "user": MESSAGE_USER,
    "assistant": MESSAGE_MODEL,
    "tool": MESSAGE_TOOL,
    "other": MESSAGE_SYSTEM,
}


@dataclass(frozen=True)
class Spelled:
    """One token. `message` indexes the dialogue's messages: the one that it belongs to."""

    id: int
    spelled: bytes
    kind: Kind
    message: int
    special: bool = False
    media: Media | None = None


@dataclass(frozen=True)
class DialogueRequest:
    """One model request. `cached` positions come from the previous request; `message` is what it answered.

    `message` is None for the last request of a dialogue that ends without an answer.
    """

    cached: int
    prompt: tuple[Spelled, ...]
    generated: tuple[Spelled, ...]
    message: int | None


class Encoder(Protocol):
    """Renders and tokenises dialogues."""

    @property
    def identity(self) -> str: ...
    def requests(self, dialogue: Dialogue) -> Iterator[DialogueRequest]:
        """The requests of `dialogue`, in order. Raises CallRefused where it cannot be rendered."""
        ...

    def spelled(self, token: int) -> tuple[bytes, bool] | None:
        """The bytes of a token and whether it is special, None where nothing tells."""
        ...


class InklingEncoder:
    """Inkling's own message framing, block by block: role, author, content kind, content, end.

    The layout is that of the model's published renderers: tool declarations come first, thinking, text and
    each tool call are blocks of their own, and an answer ends with a token of its own. No effort level is
    written, since a trace states none.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @property
    def identity(self) -> str:
        return self._vocabulary.identity

    def spelled(self, token: int) -> tuple[bytes, bool] | None:
        return None

    def requests(self, dialogue: Dialogue) -> Iterator[DialogueRequest]:
        names = {call.id: call.name for message in dialogue.messages for call in message.calls if call.id}
        context = 0
        prompt: list[Spelled] = list(self._declarations(dialogue))
        for index, message in enumerate(dialogue.messages):
            tokens = self._message(message, index, names)
            if message.role != "assistant":
                prompt += tokens
                continue
            # The token that opens the answer is the end of the prompt: the model goes on from it.
            request = DialogueRequest(context, (*prompt, tokens[0]), tuple(tokens[1:]), index)
            context += len(request.prompt) + len(request.generated)
            yield request
            prompt = []
        if prompt:
            yield DialogueRequest(context, tuple(prompt), (), None)

    def _declarations(self, dialogue: Dialogue) -> Iterator[Spelled]:
        if dialogue.tools:
            specs = [_declaration(tool) for tool in dialogue.tools]
            block = _Block(self._vocabulary, "setup", 0)
            yield from block.of(MESSAGE_SYSTEM, "tool_declare", CONTENT_XML, canonical_json(specs))

    def _message(self, message: Message, index: int, names: dict[str, str]) -> list[Spelled]:
        opener, kind = _OPENERS[message.role], KIND_OF_ROLE[message.role]
        author = {
            "tool": message.name or names.get(message.call_id, ""),
            "other": message.name,
        }.get(message.role, "")
        tokens: list[Spelled] = []
        if message.thinking:
            block = _Block(self._vocabulary, "thinking", index)
            tokens += block.of(opener, author, CONTENT_THINKING, message.thinking)
        for part in message.parts:
            block = _Block(self._vocabulary, kind, index)
            if part.media is None:
                tokens += block.of(opener, author, CONTENT_TEXT, part.text)
            else:
                tokens += block.of_media(opener, author, part.media)
        if message.role == "tool" and not message.parts:
            tokens += _Block(self._vocabulary, kind, index).of(opener, author, CONTENT_TEXT, "")
        for call in message.calls:
            tokens += self._call(call, index)
        if message.role == "assistant":
            last = tokens[-1].kind if tokens else kind
            block = _Block(self._vocabulary, last, index)
            tokens += [] if tokens else [block.special(opener)]
            tokens.append(block.special(END_SAMPLING))
        return tokens

    def _call(self, call: ToolCall, index: int) -> list[Spelled]:
        block = _Block(self._vocabulary, "tool_call", index)
        arguments = call_arguments(call)
        if arguments is None:
            return block.of(MESSAGE_MODEL, call.name, CONTENT_TOOL_TEXT, call.arguments)
        name = json.dumps(call.name, ensure_ascii=False)
        spelled = f'{{"name":{name},"args":{canonical_json(arguments)}}}'
        return block.of(MESSAGE_MODEL, call.name, CONTENT_TOOL_JSON, spelled)


@dataclass(frozen=True)
class _Block:
    """Makes the tokens of one block of one message."""

    vocabulary: Vocabulary
    kind: Kind
    message: int

    def of(self, opener: str, author: str, content: str, text: str) -> list[Spelled]:
        return [*self._head(opener, author, content), *self._text(text), self.special(END_MESSAGE)]

    def of_media(self, opener: str, author: str, media: Media) -> list[Spelled]:
        """A block with one placeholder, however long the picture or sound was: the trace does not hold it."""
        content, name = (CONTENT_IMAGE, IMAGE) if media == "image" else (CONTENT_AUDIO, AUDIO)
        place = Spelled(self.vocabulary.special(name), b"", self.kind, self.message, media=media)
        end = [self.special(AUDIO_END)] if media == "audio" else []
        return [*self._head(opener, author, content), place, *end, self.special(END_MESSAGE)]

    def special(self, name: str) -> Spelled:
        return Spelled(self.vocabulary.special(name), name.encode(), self.kind, self.message, special=True)

    def _head(self, opener: str, author: str, content: str) -> list[Spelled]:
        return [self.special(opener), *self._text(author), self.special(content)]

    def _text(self, text: str) -> list[Spelled]:
        return [
            Spelled(token, spelled, self.kind, self.message)
            for token, spelled in self.vocabulary.encode(text)
        ]


def call_arguments(call: ToolCall) -> dict[str, object] | None:
    """The arguments as an object; None where they are none, or none that JSON spells in one way, and stay text."""
    if not call.arguments.strip():
        return {}
    try:
        value = parse_json(call.arguments, half_pairs=True)
    except FaultError:
        return None
    return value if isinstance(value, dict) else None


def canonical_json(value: object) -> str:
    """JSON as the model's renderers write it: keys sorted, no spaces, no escapes but those that must be."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _declaration(tool: dict[str, object]) -> dict[str, object]:
    function = tool.get("function", tool)
    function = function if isinstance(function, dict) else {}
    return {
        "description": function.get("description") or "",
        "name": function.get("name") or "",
        "parameters": function.get("parameters") or {},
        "type": "function",
    }
