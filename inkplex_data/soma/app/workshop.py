"""What the page does: one model at work at a time, in a child process, and everything that it tells, for whoever listens."""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from inkplex_data.errors import UsageError
from inkplex_data.soma.app.json_child import Event, JsonChild
from inkplex_data.soma.app.model_shelf import edit_profile, list_models

_MODEL_NAME: Final = re.compile(r"[\w][\w .-]{0,80}\.pt")
_KEPT_FIGURES: Final = 2_000
_KEPT_WAITING: Final = 10_000
"""Events that may wait for a listener; one who is so far behind has gone."""
_WHOLE: Final[dict[str, tuple[type, ...]]] = {"int": (int,), "number": (int, float)}

Work = Literal["train", "talk"]


class Workshop:
    """A folder of models and the child process that works on one of them. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        """Held while one child gives way to another. Its last words are told meanwhile, so `_lock` is free."""
        self._child: JsonChild | None = None
        self._work: tuple[Work, str] | None = None
        self._kept: deque[Event] = deque(maxlen=_KEPT_FIGURES)
        self._listeners: list[queue.Queue[Event]] = []

    def do(self, command: Event) -> Event:
        """Carry out what the page asks for; returns what it is told at once. Raises InkplexError with what is wrong."""
        name = command.get("do")
        if name == "models":
            return {"models": [model.to_json() for model in list_models(self.folder)], "work": self.work}
        if name == "profile":
            profile = command.get("profile")
            path = self._path(command)
            if not isinstance(profile, dict) or not path.is_file():
                raise UsageError("no model and profile are named", next_step="Choose a model.")
            return {"model": edit_profile(path, profile).to_json()}
        if name == "train":
            return self._train(command)
        if name == "load":
            return self._load(command)
        if name in ("chat", "dream", "hush", "save"):
            return self._talk(command)
        if name == "stop":
            self.stop()
            return {}
        raise UsageError("the page asked for something unknown", next_step="Load the page again.")

    @property
    def work(self) -> Event | None:
        """What is going on: {"do", "model", "pid"}, or None."""
        with self._lock:
            if self._child is None or self._work is None or not self._child.is_alive:
                return None
            return {"do": self._work[0], "model": self._work[1], "pid": self._child.pid}

    def stop(self) -> None:
        """End the child, and with it all that it holds. A training saves first."""
        with self._changing:
            self._end()

    @contextmanager
    def listening(self) -> Iterator[queue.Queue[Event]]:
        """Everything that is told from now on, after what a page needs that was just loaded."""
        mine: queue.Queue[Event] = queue.Queue(_KEPT_WAITING)
        with self._lock:
            mine.put({"event": "state", "work": self.work, "figures": list(self._kept)})
            self._listeners.append(mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._listeners.remove(mine)

    def _train(self, command: Event) -> Event:
        sources = command.get("sources")
        if not isinstance(sources, list) or not sources or not all(isinstance(one, str) for one in sources):
            raise UsageError("no corpus is named", next_step="Name a store, or files of text, one a line.")
        if "-" in sources:
            raise UsageError("the page has no standard input", next_step="Name a store or files of text.")
        path = self._path(command)
        options = []
        given = {"bands": "int", "decimation": "number", "dream-every": "int"}
        if path.exists():
            del given["bands"]
        for option, kind in given.items():
            value = command.get(option)
            if isinstance(value, _WHOLE[kind]) and not isinstance(value, bool):
                options += [f"--{option}", str(value)]
        arguments = ["-m", "inkplex_data.cli.app", "soma", "train", "--json", "-o", str(path), *options]
        return self._start("train", path, [*arguments, "--", *sources])

    def _load(self, command: Event) -> Event:
        path = self._path(command)
        if not path.is_file():
            raise UsageError("there is no such model", where=path.name, next_step="Train one first.")
        return self._start("talk", path, ["-m", "inkplex_data.soma.app.talk_child", str(path)])

    def _talk(self, command: Event) -> Event:
        limit, temperature, text = (
            command.get("limit", 200),
            command.get("temperature", 0.8),
            command.get("text"),
        )
        if type(limit) is not int or not 1 <= limit <= 100_000 or not isinstance(temperature, int | float):
            raise UsageError(
                "that is no length and temperature", next_step="Give a number of tokens above 0."
            )
        if command["do"] == "chat" and not (isinstance(text, str) and text.strip()):
            raise UsageError("there is nothing to say", next_step="Write something.")
        with self._lock:
            if self._child is None or self._work is None or self._work[0] != "talk":
                raise UsageError("no model is loaded", next_step="Choose a model to talk to.")
            do = "stop" if command["do"] == "hush" else command["do"]
            self._child.send({"do": do, "text": text, "limit": limit, "temperature": max(0, temperature)})
        return {}

    def _start(self, work: Work, path: Path, arguments: list[str]) -> Event:
        with self._changing:
            if (now := self.work) is not None and now["do"] == "train":
                raise UsageError("a training is under way", where=now["model"], next_step="Stop it first.")
            self._end()
            with self._lock:
                if work == "train":
                    self._kept.clear()
                self._work = (work, path.name)
                self._child = JsonChild(arguments, self._tell)
            self._tell({"event": "work", "work": self.work})
        return {"work": self.work}

    def _end(self) -> None:
        with self._lock:
            child, self._child, self._work = self._child, None, None
        if child is not None:
            child.stop()

    def _tell(self, event: Event) -> None:
        with self._lock:
            if event.get("event") == "figures":
                self._kept.append(event)
            for listener in self._listeners:
                if not listener.full():
                    listener.put_nowait(event)

    def _path(self, command: Event) -> Path:
        """A file of the folder. Raises UsageError for a name that is none, or leads elsewhere."""
        name = command.get("model")
        if not isinstance(name, str) or not _MODEL_NAME.fullmatch(name):
            raise UsageError(
                "a model's name has letters, digits, spaces, dots and dashes, and ends in .pt",
                where=str(name)[:100],
                next_step="Name it anew.",
            )
        return self.folder / name
