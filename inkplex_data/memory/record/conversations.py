"""Which session a request goes on from, told by what it says: clients send their whole conversation each time.

A request belongs to the session whose last answer it contains, with all before it; one that asks again what was cut off
belongs to the session in which it was. Every other one begins a session. A path or header that names a session overrules.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class Conversations(Generic[S]):
    """Sessions by where they stand: what has been said in them so far."""

    def __init__(self) -> None:
        self._standing: dict[str, list[S]] = {}
        self._lock = threading.Lock()

    def going_on(self, messages: Sequence[Mapping[str, Any]]) -> S | None:
        """The session that goes on with a request of these messages; it stands there no longer. None for a new one."""
        with self._lock:
            for said in reversed(list(_said(messages))):
                sessions = self._standing.get(said)
                if sessions:
                    session = sessions.pop(0)
                    if not sessions:
                        del self._standing[said]
                    return session
        return None

    def stands(self, session: S, messages: Sequence[Mapping[str, Any]]) -> None:
        """What has been said in a session: it goes on from there."""
        *_, said = _said(messages)
        with self._lock:
            self._standing.setdefault(said, []).append(session)


def _said(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A digest of the first message, of the first two, and so on."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(json.dumps(_core(message), sort_keys=True).encode())
        yield digest.hexdigest()


def _core(message: Mapping[str, Any]) -> list[Any]:
    """What clients give back as they got it: role, text without space around it, calls by name and arguments."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        text = "".join(str(part.get("text") or part.get("type")) for part in parts)
    else:
        text = content if isinstance(content, str) else ""
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            calls.append([str(function.get("name")), _canonical(function.get("arguments"))])
    return [message.get("role"), text.strip(), calls]


def _canonical(arguments: Any) -> str:
    try:
        value = json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments or {}
        return json.dumps(value, sort_keys=True)
    except (ValueError, RecursionError):
        return str(arguments)
