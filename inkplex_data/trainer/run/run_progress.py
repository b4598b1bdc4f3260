"""What a run tells while it works: a line with the losses, seconds per update and the time left."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, Protocol

from inkplex_data.durations import hms

LINE_SECONDS = 5.0
"""Where nobody watches, a line at most this often."""
_SMOOTHING = 0.2
"""Weight of the newest update in the pace; the first ones are slow and soon forgotten."""


class TrainReporter(Protocol):
    """Receives a run's events. `row` is a row of metrics.jsonl or checks.jsonl."""

    def note(self, message: str) -> None: ...
    def update(self, row: Mapping[str, Any], updates: int) -> None: ...
    def check(self, row: Mapping[str, Any]) -> None: ...
    def finish(self) -> None: ...


class SilentReporter:
    """For library use, tests, and all ranks but the first."""

    def note(self, message: str) -> None: ...
    def update(self, row: Mapping[str, Any], updates: int) -> None: ...
    def check(self, row: Mapping[str, Any]) -> None: ...
    def finish(self) -> None: ...


class Pace:
    """Seconds per update and time left, from how long each update took."""

    def __init__(self) -> None:
        self.seconds_per_update: float | None = None

    def took(self, seconds: float) -> None:
        before = self.seconds_per_update
        self.seconds_per_update = seconds if before is None else before + _SMOOTHING * (seconds - before)

    def left(self, updates: int) -> str:
        """Time for `updates` more updates, as h:mm:ss or m:ss."""
        return hms((self.seconds_per_update or 0.0) * updates)


class ProgressLine:
    """One line that is written over on a terminal; elsewhere a line now and then."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._pace, self._shown_s, self._open = Pace(), float("-inf"), False

    def note(self, message: str) -> None:
        self._write(message)

    def update(self, row: Mapping[str, Any], updates: int) -> None:
        self._pace.took(row["seconds"])
        text = update_text(row, updates, self._pace)
        now = time.monotonic()
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
            self._open = True
        elif now - self._shown_s >= LINE_SECONDS or row["update"] == updates:
            self._write(text)
            self._shown_s = now

    def check(self, row: Mapping[str, Any]) -> None:
        self._write(check_text(row))

    def finish(self) -> None:
        if self._open:
            print(file=self._stream, flush=True)
            self._open = False

    def _write(self, text: str) -> None:
        self.finish()
        print(text, file=self._stream, flush=True)


class JsonEvents:
    """One JSON object a line, for programs."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout

    def note(self, message: str) -> None:
        self._event("note", message=message)

    def update(self, row: Mapping[str, Any], updates: int) -> None:
        self._event("update", updates=updates, **row)

    def check(self, row: Mapping[str, Any]) -> None:
        self._event("check", **row)

    def finish(self) -> None:
        self._stream.flush()

    def _event(self, event: str, **values: Any) -> None:
        print(json.dumps({"event": event, **values}), file=self._stream, flush=True)


def train_reporter_for(*, json_events: bool) -> TrainReporter:
    """The reporter of a command line run."""
    return JsonEvents() if json_events else ProgressLine()


def update_text(row: Mapping[str, Any], updates: int, pace: Pace) -> str:
    """The progress line of one update."""
    first = row["parts"]["text/first_piece"]
    return "  ".join(
        [
            f"update {row['update']}/{updates}",
            f"loss {row['loss']:.4f} (text {row['text_loss']:.4f}, voice {row['voice_loss']:.4f})",
            f"first piece {first:.4f}" if first is not None else "no first piece",
            f"gradient {row['gradient_norm']:.3g}",
            "read " + " ".join(f"{value:.2g}" for value in row["read_strength"]),
            f"{pace.seconds_per_update:.2f} s/update",
            f"{pace.left(updates - row['update'])} left",
        ]
    )


def check_text(row: Mapping[str, Any]) -> str:
    """The line of one check."""
    losses = row["losses"]["first piece"]
    shown = ", ".join(
        f"{name} {losses[key]:.4f}"
        for name, key in (("own", "own"), ("wrong", "wrong"), ("none", "none"))
        if losses.get(key) is not None
    )
    kept = "" if row.get("voice_kept") is None else f"; voice {'kept' if row['voice_kept'] else 'not kept'}"
    return f"check at update {row['update']}: first piece with memory {shown}{kept}"
