"""Anthropic's messages, as its clients ask for them; vLLM and llama.cpp answer them too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from inkplex_data.memory.record.engine_exchange import Exchange, items, texts


class AnthropicDialect:
    """`POST …/messages`."""

    def asked(self, body: Mapping[str, Any], asked_us: int) -> Exchange | None:
        messages = [told for message in items(body.get("messages")) for told in _messages(message)]
        if not messages:
            return None
        system = _text(body.get("system"))
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.get("name"),
                    "description": tool.get("description"),
                    "parameters": tool.get("input_schema"),
                },
            }
            for tool in items(body.get("tools"))
            if "input_schema" in tool
        ]
        return Exchange(
            [*([{"role": "system", "content": system}] if system else []), *messages], tools, asked_us
        )

    def event(self, exchange: Exchange, data: Mapping[str, Any], at_us: int) -> None:
        answer = exchange.answer()
        index = data["index"] if isinstance(data.get("index"), int) else 0
        match data.get("type"):
            case "message_start" if isinstance(data.get("message"), dict):
                exchange.noted(data["message"])
            case "content_block_start" if isinstance(data.get("content_block"), dict):
                block = data["content_block"]
                if block.get("type") == "tool_use":
                    name, own_id = texts(block.get("name")), texts(block.get("id"))
                    answer.add("tool_call", "", at_us, index=index, name=name, id=own_id)
                else:
                    _add(exchange, block, index, at_us)
            case "content_block_delta" if isinstance(data.get("delta"), dict):
                _add(exchange, data["delta"], index, at_us)
            case "message_stop":
                answer.finish(at_us)

    def whole(self, exchange: Exchange, body: Mapping[str, Any], at_us: int) -> None:
        exchange.noted(body)
        answer = exchange.answer()
        for index, block in enumerate(items(body.get("content"))):
            if block.get("type") == "tool_use":
                arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
                name, own_id = texts(block.get("name")), texts(block.get("id"))
                answer.add("tool_call", arguments, at_us, index=index, name=name, id=own_id)
            else:
                _add(exchange, block, index, at_us)
        answer.finish(at_us)


def _add(exchange: Exchange, block: Mapping[str, Any], index: int, at_us: int) -> None:
    """The text of a block, or of a piece of one. A thought's signature and what is redacted are no tokens of it."""
    for name, part in (("thinking", "thinking"), ("text", "reply"), ("partial_json", "tool_call")):
        if texts(block.get(name)):
            exchange.answer().add(part, block[name], at_us, index=index if part == "tool_call" else 0)  # type: ignore[arg-type]


def _text(content: Any) -> str:
    return (
        content if isinstance(content, str) else "".join(texts(part.get("text")) for part in items(content))
    )


def _messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One message as chat messages: results of tools are messages of their own there."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(content, list):
        yield {"role": role, "content": _text(content)}
        return
    told: dict[str, Any] = {"role": role, "content": []}
    for block in items(content):
        match block.get("type"):
            case "tool_result":
                own_id = texts(block.get("tool_use_id"))
                yield {"role": "tool", "tool_call_id": own_id, "content": _text(block.get("content"))}
            case "tool_use":
                arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
                function = {"name": texts(block.get("name")), "arguments": arguments}
                calls = told.setdefault("tool_calls", [])
                calls.append({"id": texts(block.get("id")), "type": "function", "function": function})
            case "thinking":
                told["reasoning_content"] = told.get("reasoning_content", "") + texts(block.get("thinking"))
            case "text":
                told["content"].append({"type": "text", "text": texts(block.get("text"))})
            case "image" | "document":
                told["content"].append({"type": "image"})
    if told["content"] or len(told) > 2:
        if all(part["type"] == "text" for part in told["content"]):
            told["content"] = "".join(part["text"] for part in told["content"])
        yield told
