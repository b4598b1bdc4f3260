"""One session of a reasoning model as it happens: which tokens each request computed, and when they arrived.

    recorder = SessionRecorder(Path("out/task-7.recording.jsonl"), recording="task-7", tokenizer="o200k", model="m")
    prompt = [ArrivedToken(id, "user", text, recorder.now_us()) for id, text in ...]
    answer = []
    for id, text in engine.generate(...):
        answer.append(ArrivedToken(id, "reply", text, recorder.now_us()))
    recorder.add(prompt, answer)

Every request is on the disk, and the recording valid, when `add` returns. Calls over the session name it and
`recorder.recording_starts_at_s(...)`, the moment on its clock at which their audio begins.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from inkplex_data import __version__
from inkplex_data.atomic import naming_full_disks
from inkplex_data.clock import US_PER_S, us_to_seconds
from inkplex_data.corpus.recordings.recording_models import HEADER_SCHEMA, Kind, RecordingHeader
from inkplex_data.errors import UsageError


@dataclass(frozen=True)
class ArrivedToken:
    """A token on the session clock, in µs: available at the source at `at_us` and delivered at `ready_us`, where that is
    later. `spelled` are its bytes; media placeholders have none."""

    id: int
    kind: Kind
    spelled: bytes
    at_us: int
    ready_us: int | None = None
    special: bool = False
    media: Literal["audio", "image"] | None = None

    @property
    def arrival_us(self) -> int:
        return self.at_us if self.ready_us is None else max(self.at_us, self.ready_us)

    def as_dict(self) -> dict[str, Any]:
        """The token as a line of a recording has it."""
        fields: dict[str, Any] = {"id": self.id, "kind": self.kind}
        if self.media is None:
            try:
                fields["text"] = self.spelled.decode()
            except UnicodeDecodeError:
                fields["bytes_b64"] = base64.b64encode(self.spelled).decode()
        else:
            fields["media"] = self.media
        fields["at"] = us_to_seconds(self.at_us)
        if self.arrival_us > self.at_us:
            fields["ready_at"] = us_to_seconds(self.arrival_us)
        if self.special:
            fields["special"] = True
        return fields


@dataclass(frozen=True)
class SessionTime:
    """The clock of one session: zero when it began. It never goes back, whatever is done to the machine's clock."""

    began_unix_ns: int = field(default_factory=time.time_ns)
    began_ns: int = field(default_factory=time.monotonic_ns)

    def now_us(self) -> int:
        """Microseconds since the session began."""
        return (time.monotonic_ns() - self.began_ns) // 1_000

    def of_unix_us(self, unix_s: float) -> int:
        """Session time of a moment that `time.time()` gave, also in another process of this machine."""
        return round(unix_s * US_PER_S) - self.began_unix_ns // 1_000


@dataclass
class _Context:
    """The tokens of a request's whole context, those of its prefix included, with their arrivals."""

    ids: list[int]
    arrivals_us: list[int]


class SessionRecorder:
    """Writes one recording, a line for each request. Its methods may be called from several threads."""

    def __init__(
        self,
        path: Path,
        *,
        recording: str,
        tokenizer: str | None = None,
        model: str | None = None,
        time: SessionTime | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """`path` is made with the first request; `tokenizer` and `model` are what the header says of them.

        Raises UsageError where the recording is there already, ValueError for a name that no recording can have.
        """
        if path.exists():
            raise UsageError(
                "there is a recording already", where=str(path), next_step="Give the session another name."
            )
        self.path = path
        self.time = time or SessionTime()
        self.requests = 0
        self.tokens = 0
        header = {
            "schema": HEADER_SCHEMA,
            "recording": recording,
            "tokenizer": tokenizer,
            "times": "recorded",
            "provenance": {
                "recorder": f"inkplex-data {__version__}",
                **(provenance or {}),
                "session_starts_at_unix_s": self.time.began_unix_ns / 1e9,
            },
        } | ({} if model is None else {"model": model})
        RecordingHeader.model_validate(header)
        self._header = header
        self._contexts: list[_Context] = []
        self._lock = threading.Lock()

    def now_us(self) -> int:
        """Session time of this moment."""
        return self.time.now_us()

    def recording_starts_at_s(self, audio_began_unix_s: float) -> float:
        """`recording_starts_at` of a call whose audio began at that moment (`time.time()`): seconds on the session clock."""
        return us_to_seconds(self.time.of_unix_us(audio_began_unix_s))

    def add(self, prompt: Sequence[ArrivedToken], answer: Sequence[ArrivedToken]) -> int:
        """Write a request: its whole prompt, and what the model answered. Returns its number.

        What of the prompt an earlier request computed is found and not written again. No token arrives before the one
        before it: a prompt is computed as a whole, by the time its last token arrives.

        Raises OutputError for a full disk.
        """
        with self._lock:
            owner, shared = self._prefix(prompt, answer)
            own = _in_order([*prompt[shared:], *answer], ready=len(prompt) - shared)
            line: dict[str, Any] = {"call": self.requests, "tokens": [token.as_dict() for token in own]}
            if shared:
                line["cached"] = {"call": owner, "tokens": shared}
            self._write(line)
            before = self._contexts[owner] if shared else _Context([], [])
            self._contexts.append(
                _Context(
                    before.ids[:shared] + [token.id for token in own],
                    before.arrivals_us[:shared] + [token.arrival_us for token in own],
                )
            )
            self.requests += 1
            self.tokens += len(own)
            return self.requests - 1

    def _prefix(self, prompt: Sequence[ArrivedToken], answer: Sequence[ArrivedToken]) -> tuple[int, int]:
        """The request that shares the longest beginning with `prompt`, and how much; nothing that arrived later than
        the first token beyond it: another request that was computed at the same time is nobody's prefix."""
        ids = [token.id for token in prompt]
        best = (0, 0)
        for number, context in enumerate(self._contexts):
            shared = _common(context.ids, ids)
            rest: Sequence[ArrivedToken] = [*prompt[shared:], *answer][:1]
            while shared and rest and context.arrivals_us[shared - 1] > rest[0].arrival_us:
                shared -= 1
                rest = prompt[shared : shared + 1]
            if shared > best[1]:
                best = (number, shared)
        return best

    def _write(self, line: Mapping[str, Any]) -> None:
        lines = [line] if self.requests else [self._header, line]
        text = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in lines)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming_full_disks(self.path), self.path.open("ab") as file:
            file.write(text.encode())


def _in_order(tokens: Sequence[ArrivedToken], *, ready: int) -> list[ArrivedToken]:
    """The tokens with arrivals that never fall; the first `ready` are there together, when the last of them is."""
    latest = max(
        (token.arrival_us for token in tokens[:ready]), default=tokens[0].arrival_us if tokens else 0
    )
    found = []
    for token in tokens:
        latest = max(latest, token.arrival_us)
        found.append(token if token.arrival_us == latest else replace(token, ready_us=latest))
    return found


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    return next(index for index in range(limit) if one[index] != other[index])
