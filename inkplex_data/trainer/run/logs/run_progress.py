"""What a run tells while it works: a line with the losses, seconds per update and the time left."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from inkplex_data.durations import hms
from inkplex_data.printable import plain

LINE_SECONDS = 5.0
"""Where nobody watches, a line at most this often."""
_SMOOTHING = 0.2
"""Weight of the newest update in the pace; the first ones are slow and soon forgotten."""


class TrainReporter:
    """Receives a run's events; this one is silent. `row` is a row of metrics.jsonl or checks.jsonl."""

    def note(self, message: str) -> None: ...
    def update(self, row: Mapping[str, Any], updates: int) -> None: ...
    def check(self, row: Mapping[str, Any]) -> None: ...
    def finish(self) -> None: ...


class ProgressLine(TrainReporter):
    """One line that is written over on a terminal; elsewhere a line now and then."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown_s, self._open = float("-inf"), False
        self._pace_s: float | None = None

    def note(self, message: str) -> None:
        self._write(message)

    def update(self, row: Mapping[str, Any], updates: int) -> None:
        before_s, took_s = self._pace_s, row["seconds"]
        self._pace_s = took_s if before_s is None else before_s + _SMOOTHING * (took_s - before_s)
        text = update_text(row, updates, self._pace_s)
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
        print(plain(text), file=self._stream, flush=True)


class JsonEvents(TrainReporter):
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


def update_text(row: Mapping[str, Any], updates: int, seconds_per_update: float) -> str:
    """The progress line of one update."""
    first = row["parts"]["text/first_piece"]
    return "  ".join(
        [
            f"update {row['update']}/{updates}",
            f"loss {row['loss']:.4f} (text {row['text_loss']:.4f}, voice {row['voice_loss']:.4f})",
            f"first piece {first:.4f}" if first is not None else "no first piece",
            f"gradient {row['gradient_norm']:.3g}",
            *(
                ["read " + " ".join(f"{value:.2g}" for value in row["read_strength"])]
                * bool(row["read_strength"])
            ),
            f"{seconds_per_update:.2f} s/update",
            f"{hms(seconds_per_update * (updates - row['update']))} left",
        ]
    )


def check_text(row: Mapping[str, Any]) -> str:
    """The line of one check."""
    losses = row["losses"]["first piece"]
    memories = [memory for memory in ("own", "wrong", "none") if losses.get(memory) is not None]
    said = [] if row.get("loss") is None else [f"loss {row['loss']:.4f}"]
    if memories == ["none"]:
        said.append(f"first piece {losses['none']:.4f}")
    elif memories:
        said.append("first piece with memory " + ", ".join(f"{name} {losses[name]:.4f}" for name in memories))
    kept = "" if row.get("voice_kept") is None else f"; voice {'kept' if row['voice_kept'] else 'not kept'}"
    return f"check at update {row['update']}: {', '.join(said) or 'no first piece'}{kept}"
