"""What a long run tells while it works: events, and the three ways to show them."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from inkplex_data.durations import hms
from inkplex_data.printable import plain


class Reporter(Protocol):
    """Receives a run's events. `audio_us` is audio covered, so that a rate in hours a second can be shown."""

    def stage(self, name: str, items: int, *, unit: str = "calls") -> None: ...
    def advance(self, name: str, *, items: int = 1, audio_us: int = 0) -> None: ...
    def note(self, message: str) -> None: ...
    def finish(self) -> None: ...


class SilentReporter:
    """For library use and tests."""

    def stage(self, name: str, items: int, *, unit: str = "calls") -> None: ...
    def advance(self, name: str, *, items: int = 1, audio_us: int = 0) -> None: ...
    def note(self, message: str) -> None: ...
    def finish(self) -> None: ...


@dataclass
class _Stage:
    items: int
    unit: str
    done: int = 0
    audio_us: int = 0

    def __post_init__(self) -> None:
        self.started_s = time.monotonic()

    def rate(self) -> str:
        elapsed_s = max(time.monotonic() - self.started_s, 1e-9)
        if self.audio_us:
            return f"{self.audio_us / 3.6e9 / elapsed_s:.2g} audio hours/s"
        return f"{self.done / elapsed_s:.2g} {self.unit}/s"

    def left(self) -> str:
        """Time left at the pace so far; empty where none is known, or nothing is left."""
        if not 0 < self.done < self.items:
            return ""
        elapsed_s = time.monotonic() - self.started_s
        return f", {hms(elapsed_s * (self.items - self.done) / self.done)} left"


LINE_S = 60.0
"""A log that is silent for longer looks like one of a run that hangs."""


class LineReporter:
    """One log line as a stage begins and ends, in between one for every tenth part of it and at least one a minute."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._stages: dict[str, _Stage] = {}
        self._last_s = time.monotonic()

    def stage(self, name: str, items: int, *, unit: str = "calls") -> None:
        self._stages[name] = _Stage(items, unit)
        self._line(f"{name}: {items} {unit}")

    def advance(self, name: str, *, items: int = 1, audio_us: int = 0) -> None:
        stage = self._stages[name]
        tenth = stage.done * 10 // max(stage.items, 1)
        stage.done += items
        stage.audio_us += audio_us
        is_tenth = stage.done * 10 // max(stage.items, 1) != tenth or stage.done == stage.items
        if is_tenth or time.monotonic() - self._last_s >= LINE_S:
            self._line(f"{name}: {stage.done}/{stage.items} {stage.unit}, {stage.rate()}{stage.left()}")

    def note(self, message: str) -> None:
        self._line(message)

    def finish(self) -> None:
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._last_s = time.monotonic()
        print(plain(text), file=self._stream, flush=True)


class JsonReporter:
    """One JSON object a line, for programs."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout
        self._stages: dict[str, _Stage] = {}

    def stage(self, name: str, items: int, *, unit: str = "calls") -> None:
        self._stages[name] = _Stage(items, unit)
        self._event(event="stage", stage=name, items=items, unit=unit)

    def advance(self, name: str, *, items: int = 1, audio_us: int = 0) -> None:
        stage = self._stages[name]
        stage.done += items
        stage.audio_us += audio_us
        self._event(event="progress", stage=name, done=stage.done, items=stage.items, audio_us=stage.audio_us)

    def note(self, message: str) -> None:
        self._event(event="note", message=message)

    def finish(self) -> None:
        self._stream.flush()

    def _event(self, **event: object) -> None:
        print(json.dumps(event), file=self._stream, flush=True)


class LiveReporter:
    """A bar per stage on a terminal: items, audio hours a second, time left."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._stages: dict[str, _Stage] = {}
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def stage(self, name: str, items: int, *, unit: str = "calls") -> None:
        self._stages[name] = _Stage(items, unit)
        self._tasks[name] = self._progress.add_task(name, total=items, rate="")

    def advance(self, name: str, *, items: int = 1, audio_us: int = 0) -> None:
        stage = self._stages[name]
        stage.done += items
        stage.audio_us += audio_us
        self._progress.update(self._tasks[name], advance=items, rate=stage.rate())

    def note(self, message: str) -> None:
        self._console.print(plain(message), markup=False, highlight=False)

    def finish(self) -> None:
        self._progress.stop()


def reporter_for(*, json_events: bool = False, quiet: bool = False) -> Reporter:
    """The reporter that suits where standard error goes."""
    if quiet:
        return SilentReporter()
    if json_events:
        return JsonReporter()
    return LiveReporter() if sys.stderr.isatty() else LineReporter()
