"""A small engine: a real, tiny transformers model that samples letters, behind the interfaces of OpenAI and Anthropic.

With tools it calls the first of them where a user spoke last, and answers in text where a tool did. Every answer begins
with a thought. `cut_after` breaks the connection of the next answers after that many events each.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LETTERS = torch.tensor([*range(97, 123), 32])


class TinyEngine(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=256, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
        )
        self.model = LlamaForCausalLM(config).eval()
        self.cut_after: list[int] = []
        self.headers_seen: list[dict[str, str]] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def sample(self, text: str, tokens: int) -> Iterator[str]:
        """`tokens` letters that the model says after `text`, one at a time."""
        ids = torch.tensor([list(text.encode())[-64:] or [32]])
        cache = None
        generator = torch.Generator().manual_seed(len(text))
        for _ in range(tokens):
            with self.lock, torch.inference_mode():
                out = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            odds = torch.softmax(out.logits[0, -1, LETTERS] * 4, 0)
            ids = LETTERS[torch.multinomial(odds, 1, generator=generator)][None]
            yield chr(int(ids))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TinyEngine

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "tests"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.headers_seen.append(dict(self.headers.items()))
        events = self._chat(body) if self.path.endswith("/chat/completions") else self._messages(body)
        if not body.get("stream"):
            self._json(_joined(list(events)))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        left = self.server.cut_after.pop(0) if self.server.cut_after else -1
        for name, event in events:
            if left == 0:
                self.close_connection = True
                return
            left -= 1
            self._event(
                f"event: {name}\ndata: {json.dumps(event)}\n\n" if name else f"data: {json.dumps(event)}\n\n"
            )
        if self.path.endswith("/chat/completions"):
            self._event("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, text: str) -> None:
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _chat(self, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        said = json.dumps(body["messages"])
        calls = bool(body.get("tools")) and body["messages"][-1]["role"] == "user"

        def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any]]:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return "", {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "tiny",
                "choices": [choice],
            }

        yield chunk({"role": "assistant", "content": ""})
        for letter in self.server.sample(said, 4):
            yield chunk({"reasoning_content": letter})
        if not calls:
            for letter in self.server.sample(said + "!", 8):
                yield chunk({"content": letter})
            yield chunk({}, "stop")
            return
        function = {"name": body["tools"][0]["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}]})
        for piece in ('{"q":"', *self.server.sample(said + "?", 4), '"}'):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")

    def _messages(self, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        said = json.dumps(body["messages"])
        last = body["messages"][-1]["content"]
        calls = bool(body.get("tools")) and not (isinstance(last, list) and last[0]["type"] == "tool_result")
        message = {
            "id": "msg-1",
            "type": "message",
            "role": "assistant",
            "model": "tiny",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        blocks: list[tuple[dict[str, Any], str, Any]] = [
            ({"type": "thinking", "thinking": "", "signature": ""}, "thinking", self.server.sample(said, 4))
        ]
        if calls:
            block = {"type": "tool_use", "id": "toolu-1", "name": body["tools"][0]["name"], "input": {}}
            blocks.append((block, "partial_json", ('{"q":"', *self.server.sample(said + "?", 4), '"}')))
        else:
            blocks.append(({"type": "text", "text": ""}, "text", self.server.sample(said + "!", 8)))
        kinds = {"thinking": "thinking_delta", "partial_json": "input_json_delta", "text": "text_delta"}
        yield "message_start", {"type": "message_start", "message": message}
        for index, (block, field, pieces) in enumerate(blocks):
            yield (
                "content_block_start",
                {"type": "content_block_start", "index": index, "content_block": block},
            )
            for piece in pieces:
                yield (
                    "content_block_delta",
                    {
                        "type": "content_block_delta",
                        "index": index,
                        "delta": {"type": kinds[field], field: piece},
                    },
                )
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        yield (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
        )
        yield "message_stop", {"type": "message_stop"}


def _joined(events: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """A chat answer that comes at once."""
    deltas = [event["choices"][0]["delta"] for _, event in events]
    message = {
        "role": "assistant",
        "content": "".join(delta.get("content") or "" for delta in deltas),
        "reasoning_content": "".join(delta.get("reasoning_content") or "" for delta in deltas),
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [choice],
    }
