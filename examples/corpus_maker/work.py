"""The recorded work of a scripted reasoning model: requests, cached prefixes, and when each token arrived.

The tokens are real: o200k ids in the "harmony" chat format, from the ranks that `splintr` bundles. The
work is not: no model wrote it, and its times follow a schedule, so recordings say `times: constructed`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

TOKENIZER: Final = "o200k_harmony"
_FIRST_SPECIAL_ID: Final = 199_998

PREFILL_US: Final = 60_000
PREFILL_TOKENS: Final = 256
PREFILL_BLOCK_US: Final = 20_000
"""A prompt is computed in 60 ms and 20 ms more for every 256 tokens begun; all its rows come at once."""

TOKENS_PER_S: Final = 48


@cache
def _tokenizer() -> Any:
    import splintr

    return splintr.Tokenizer.from_pretrained(TOKENIZER)


def encode(text: str) -> list[tuple[int, bytes, bool]]:
    """(id, bytes, special) of every token of `text`, markup such as `<|start|>` included."""
    tokenizer = _tokenizer()
    tokens = []
    for token in tokenizer.encode_with_special(text):
        special = token >= _FIRST_SPECIAL_ID
        tokens.append((token, b"" if special else bytes(tokenizer.decode_bytes([token])), special))
    return tokens


@dataclass(frozen=True)
class Token:
    """A computed token; session times in µs. `ready_us` is None where the token was sampled, not prefilled."""

    id: int
    kind: str
    spelled: bytes
    special: bool
    at_us: int
    ready_us: int | None = None

    @property
    def arrival_us(self) -> int:
        return self.at_us if self.ready_us is None else max(self.at_us, self.ready_us)

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": self.id, "kind": self.kind}
        if not self.special:
            try:
                fields["text"] = self.spelled.decode()
            except UnicodeDecodeError:
                fields["bytes_b64"] = base64.b64encode(self.spelled).decode()
        fields["at"] = self.at_us / 1_000_000
        if self.ready_us is not None and self.ready_us > self.at_us:
            fields["ready_at"] = self.ready_us / 1_000_000
        if self.special:
            fields["special"] = True
        return fields


@dataclass(frozen=True)
class Part:
    """A stretch of a prompt. `at_us` is when its text was available: one time, or one for every word of it.

    Words are whitespace-delimited; text before the first timed word (markup) has the first word's time.
    """

    kind: str
    text: str
    at_us: int | Sequence[int]
    body: str = ""
    """The timed words, as they stand in `text`; empty where `at_us` is one time."""

    @property
    def available_us(self) -> int:
        """When all of it was available."""
        return self.at_us if isinstance(self.at_us, int) else max(self.at_us)


@dataclass(frozen=True)
class Segment:
    """Tokens that came together or one after another: positions of one request, for the sidecar."""

    id: str
    kind: str
    request: int
    first: int
    """Index into the request's computed tokens."""
    end: int
    text: str
    available_us: int
    """When the last of it was available at its source."""
    arrival_us: int
    """When the last of it had arrived."""


@dataclass
class Request:
    """One model request: `cached` (request, positions) came from an earlier one, `tokens` it computed itself."""

    work: Work
    index: int
    cached: tuple[int, int] | None
    clock_us: int
    tokens: list[Token] = field(default_factory=list)
    segments: dict[str, Segment] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        return (self.cached[1] if self.cached else 0) + len(self.tokens)

    def prefill(self, parts: Sequence[Part]) -> None:
        """Compute a prompt: all of its rows arrive together once they are computed."""
        spelled = [(part, encode(part.text)) for part in parts]
        count = sum(len(tokens) for _, tokens in spelled)
        blocks = -(-count // PREFILL_TOKENS)
        available_us = max(part.available_us for part in parts)
        ready_us = max(self.clock_us, available_us) + PREFILL_US + blocks * PREFILL_BLOCK_US
        for part, tokens in spelled:
            first = len(self.tokens)
            times = _token_times(part, tokens)
            self.tokens.extend(
                Token(token, part.kind, letters, special, at_us, ready_us)
                for (token, letters, special), at_us in zip(tokens, times, strict=True)
            )
            self._segment(part.kind, first, part.text, part.available_us, ready_us)
        self.clock_us = ready_us

    def generate(self, kind: str, text: str, *, tokens_per_s: int = TOKENS_PER_S) -> Segment:
        """Sample `text` token by token after what is there."""
        first = len(self.tokens)
        for token, letters, special in encode(text):
            self.clock_us += 1_000_000 // tokens_per_s
            self.tokens.append(Token(token, kind, letters, special, self.clock_us))
        return self._segment(kind, first, text, self.clock_us, self.clock_us)

    def _segment(self, kind: str, first: int, text: str, available_us: int, arrival_us: int) -> Segment:
        name = f"request-{self.index}.{kind}"
        repeats = sum(key == name or key.startswith(f"{name}.") for key in self.segments)
        name = name if not repeats else f"{name}.{repeats + 1}"
        segment = Segment(name, kind, self.index, first, len(self.tokens), text, available_us, arrival_us)
        self.segments[name] = segment
        return segment


@dataclass
class Work:
    """A recorded task session. `branch_of` is (recording, fork in µs) of the twin that it equals before the fork."""

    name: str
    branch_of: tuple[str, int] | None = None
    requests: list[Request] = field(default_factory=list)

    def request(
        self, parts: Sequence[Part], at_us: int, *, after: Request | None = None, keep: int | None = None
    ) -> Request:
        """A new request whose first `keep` positions (all by default) are those of `after`, then `parts`."""
        cached = None if after is None else (after.index, after.positions if keep is None else keep)
        if after is not None and cached is not None and not 0 < cached[1] <= after.positions:
            raise ValueError(f"request {after.index} has no {cached[1]} positions to keep")
        request = Request(self, len(self.requests), cached, at_us)
        self.requests.append(request)
        request.prefill(parts)
        return request

    def row_of(self, segment: Segment) -> tuple[int, int]:
        """Rows [first, end) of `segment` in layout order, by request then position."""
        before = sum(len(request.tokens) for request in self.requests[: segment.request])
        return before + segment.first, before + segment.end

    def segments(self) -> list[Segment]:
        return [segment for request in self.requests for segment in request.segments.values()]

    def tokens(self) -> list[Token]:
        return [token for request in self.requests for token in request.tokens]


def _token_times(part: Part, tokens: list[tuple[int, bytes, bool]]) -> list[int]:
    """When the text of each token was available: with one time a word, that of the word its last byte is in."""
    if isinstance(part.at_us, int):
        return [part.at_us] * len(tokens)
    starts: list[int] = []
    body = part.text.encode().index(part.body.encode())
    for spelled in part.body.split():
        body = part.text.encode().index(spelled.encode(), body)
        starts.append(body)
        body += len(spelled.encode())
    if len(starts) != len(part.at_us):
        raise ValueError(f"{len(starts)} words but {len(part.at_us)} times in {part.body!r}")
    markup = {token: name.encode() for name, token in _MARKUP.items()}
    times, position = [], 0
    for token, letters, special in tokens:
        position += len(markup[token] if special else letters)
        word = max(0, sum(start < position for start in starts) - 1)
        times.append(part.at_us[word])
    return times


_MARKUP: Final = {
    "<|return|>": 200_002,
    "<|constrain|>": 200_003,
    "<|channel|>": 200_005,
    "<|start|>": 200_006,
    "<|end|>": 200_007,
    "<|message|>": 200_008,
    "<|call|>": 200_012,
}
