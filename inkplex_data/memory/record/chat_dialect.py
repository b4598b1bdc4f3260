"""Chat completions, as OpenAI's clients ask for them and vLLM, SGLang, llama.cpp and transformers answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inkplex_data.memory.record.answers import Answer
from inkplex_data.memory.record.engine_exchange import Exchange, items, texts, token_ids

_THINKING: Final = ("reasoning_content", "reasoning")
"""Where engines put thinking: the first is SGLang's and llama.cpp's, the second vLLM's; no interface declares it."""


class ChatDialect:
    """`POST …/chat/completions`."""

    def asked(self, body: Mapping[str, Any], asked_us: int) -> Exchange | None:
        messages = items(body.get("messages"))
        choices = body.get("n") if isinstance(body.get("n"), int) else 1
        return Exchange(messages, items(body.get("tools")), asked_us, choices or 1) if messages else None

    def event(self, exchange: Exchange, data: Mapping[str, Any], at_us: int) -> None:
        exchange.noted(data)
        for choice in items(data.get("choices")):
            index = choice.get("index")
            answer = exchange.answer(index if isinstance(index, int) else 0)
            _add(answer, choice.get("delta"), at_us)
            answer.ids += [(one, at_us) for one in token_ids(choice.get("token_ids")) or ()]
            if choice.get("finish_reason"):
                answer.finish(at_us)

    def whole(self, exchange: Exchange, body: Mapping[str, Any], at_us: int) -> None:
        exchange.noted(body)
        for number, choice in enumerate(items(body.get("choices"))):
            answer = exchange.answer(number)
            _add(answer, choice.get("message"), at_us)
            answer.ids += [(one, at_us) for one in token_ids(choice.get("token_ids")) or ()]
            answer.finish(at_us)


def _add(answer: Answer, delta: Any, at_us: int) -> None:
    if not isinstance(delta, dict):
        return
    thought = next((texts(delta[name]) for name in _THINKING if delta.get(name)), "")
    if thought:
        answer.add("thinking", thought, at_us)
    if texts(delta.get("content")):
        answer.add("reply", delta["content"], at_us)
    for number, call in enumerate(items(delta.get("tool_calls"))):
        function = call["function"] if isinstance(call.get("function"), dict) else {}
        index = call["index"] if isinstance(call.get("index"), int) else number
        name, arguments = texts(function.get("name")), texts(function.get("arguments"))
        answer.add("tool_call", arguments, at_us, index=index, name=name, id=texts(call.get("id")))
