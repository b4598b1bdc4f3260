"""What a run writes down: one JSON line for each update and each check, and the same for TensorBoard.

A resumed run cuts both back to the update that its checkpoint holds, so that they read like those of a run
that nothing interrupted.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inkplex_data.atomic import naming_full_disks, replacing
from inkplex_data.corpus.jsontext import numbered_lines, parse_json
from inkplex_data.errors import CheckpointError
from inkplex_data.libraries import require
from inkplex_data.trainer.run.logs.trackers import Tracker

UPDATES_FILE = "metrics.jsonl"
CHECKS_FILE = "checks.jsonl"
BOARD_FOLDER = "tensorboard"


class JsonLines:
    """A file of JSON objects that have an `update`, one a line, in rising order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> Iterator[dict[str, Any]]:
        """All whole lines; a line that a kill cut short is left out. Raises CheckpointError for other bytes."""
        if not self.path.is_file():
            return
        for line in numbered_lines(self.path):
            if not line.complete:
                return
            try:
                row = parse_json(line.data)
                row["update"] + 0
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(
                    f"not a line of a run's metrics: {error}",
                    where=f"{self.path}:{line.number}",
                    next_step="Remove the line or the file; a run continues without it.",
                ) from error
            yield row

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; values that are not finite become null, as JSON has no name for them."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming_full_disks(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_finite(row), allow_nan=False) + "\n")

    def cut(self, after: int) -> None:
        """Drop rows of updates later than `after`, and a line that a kill cut short."""
        if not self.path.is_file():
            return
        kept = [json.dumps(row) for row in self.rows() if row["update"] <= after]
        with replacing(self.path) as file:
            file.write("".join(f"{line}\n" for line in kept).encode())


class MetricsLog:
    """`metrics.jsonl`, `checks.jsonl` and `tensorboard/` of a run folder.

    trackers: what else gets every number. Raises MissingLibraryError where TensorBoard is wanted and not installed.
    """

    def __init__(
        self, folder: Path, *, done: int = 0, tensorboard: bool = True, trackers: Sequence[Tracker] = ()
    ) -> None:
        self.updates = JsonLines(folder / UPDATES_FILE)
        self.checks = JsonLines(folder / CHECKS_FILE)
        self.updates.cut(done)
        self.checks.cut(done)
        self._plotted = list(trackers)
        if tensorboard:
            self._plotted.append(_Board(folder / BOARD_FOLDER, purge_step=done + 1))

    def update(self, row: Mapping[str, Any]) -> None:
        """What one update did; `row` has an `update`."""
        self.updates.append(row)
        self._plot("train", row)

    def check(self, row: Mapping[str, Any]) -> None:
        """What one check on the panel found; `row` has an `update`."""
        self.checks.append(row)
        self._plot("check", row)

    def close(self) -> None:
        for tracker in self._plotted:
            tracker.close()

    def _plot(self, group: str, row: Mapping[str, Any]) -> None:
        values = dict(_flat(group, row)) if self._plotted else {}
        for tracker in self._plotted:
            tracker.add(values, row["update"])


class _Board:
    """A file of TensorBoard events. Each is written at once by the caller: the library's own writer does so in a
    thread, whose faults nobody catches."""

    def __init__(self, folder: Path, *, purge_step: int) -> None:
        """purge_step: what an earlier file holds of this step and later ones is not shown."""
        require("tensorboard", extra="train", needed_for="TensorBoard logs")
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._session, self._summary = event_pb2.Event, event_pb2.SessionLog, summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._file = self._path.open("ab", buffering=0)
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        self._write(step=purge_step, session_log=self._session(status=self._session.START))

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Values by name."""
        scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=self._summary(value=scalars))

    def close(self) -> None:
        self._file.close()

    def _write(self, **fields: Any) -> None:
        with naming_full_disks(self._path):
            self._records.write(self._event(wall_time=time.time(), **fields).SerializeToString())


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """(name, number) of every number in nested objects and lists."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "update":
                yield from _flat(f"{name}/{key}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value, 1):
            yield from _flat(f"{name}/{index}", inner)
    elif isinstance(value, (int, float)):
        yield name, float(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
