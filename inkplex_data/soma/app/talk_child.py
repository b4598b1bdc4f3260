"""The child process in which the page's chats and dreams are made: `python -m inkplex_data.soma.app.talk_child MODEL.pt`.

Commands, a line of JSON each: {"do": "chat", "text", "limit", "temperature"}, {"do": "dream", "limit", "temperature"},
{"do": "stop"}, which is heard between two tokens, {"do": "look"}, {"do": "save"}. Events: loaded, heard, text, said, look, saved, fault.
"""

from __future__ import annotations

import json
import math
import queue
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

from inkplex_data.errors import InkplexError
from inkplex_data.soma.app.look_inside import look_inside
from inkplex_data.soma.app.talk import dream, hear, reply
from inkplex_data.soma.learner.soma_checkpoint import load_learner, save_learner
from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer


class TalkChild:
    """A loaded model, and the commands that wait for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._stop = threading.Event()
        self._learner, self._tokenizer = load_learner(path), SomaTokenizer.load()
        self._turns = 0

    def run(self) -> None:
        """Do what standard input asks for, until it ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        _tell("loaded", model=self._path.name)
        self._look()
        while (command := self._commands.get()) is not None:
            try:
                self._do(command)
            except (InkplexError, OSError) as error:
                _tell("fault", message=str(error))

    def _listen(self) -> None:
        """On a thread of its own, so that a stop is heard while soma speaks."""
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "stop":
                self._stop.set()
            else:
                self._commands.put(command)
        self._stop.set()
        self._commands.put(None)

    def _do(self, command: dict[str, Any]) -> None:
        do = command["do"]
        if do == "save":
            _tell("saved", revision=save_learner(self._learner, self._path))
        elif do == "look":
            self._look()
        else:
            self._stop.clear()
            self._turns += 1
            options = {"limit": command["limit"], "temperature": command["temperature"], "seed": self._turns}
            if do == "chat":
                report = hear(self._learner, self._tokenizer, command["text"])
                bits = report.bits_per_byte
                _tell("heard", bits_per_byte=bits if math.isfinite(bits) else None)
            self._say((reply if do == "chat" else dream)(self._learner, self._tokenizer, **options))
            self._look()

    def _say(self, pieces: Generator[str]) -> None:
        for piece in pieces:
            if piece:
                _tell("text", text=piece)
            if self._stop.is_set():
                pieces.close()
        _tell("said", stopped=self._stop.is_set(), dream_ratio=self._learner.counts.dream_ratio)

    def _look(self) -> None:
        _tell("look", **look_inside(self._learner, self._tokenizer))


def _tell(event: str, **body: Any) -> None:
    print(json.dumps({"event": event, **body}), flush=True)  # noqa: T201  a pipe, not a terminal


if __name__ == "__main__":
    TalkChild(Path(sys.argv[1])).run()
