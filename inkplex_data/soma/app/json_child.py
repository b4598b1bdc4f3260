"""A child process that is told things, and tells things, as lines of JSON. Ending it frees all that it held."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

Event = dict[str, Any]
_PATIENCE_S: Final = 20.0
_MOST_ERRORS: Final = 4_000


class JsonChild:
    """A Python process. Its events go to `tell` on a thread of their own; the last is `ended`, with its exit code and what
    it wrote to standard error."""

    def __init__(self, arguments: Sequence[str], tell: Callable[[Event], None]) -> None:
        """Start `python arguments`."""
        self._process = subprocess.Popen(  # noqa: S603  no shell, and the arguments are lists
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        self._tell, self._errors = tell, ""
        self._stopping = False
        listener = threading.Thread(target=self._complaints, daemon=True)
        listener.start()
        self._reader = threading.Thread(target=self._listen, args=(listener,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def send(self, command: Event) -> None:
        """Tell the child something; nothing happens if it has ended."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def stop(self) -> None:
        """End it: in order, or by force when it takes longer than twenty seconds. Returns when it is gone."""
        self._stopping = True
        if self.is_alive:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join()

    def _listen(self, listener: threading.Thread) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self._tell(event)
        code = self._process.wait()
        listener.join()
        self._tell(
            {"event": "ended", "code": code, "stopped": self._stopping, "errors": self._errors.strip()}
        )

    def _complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-_MOST_ERRORS:]
