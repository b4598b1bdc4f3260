"""What a run writes down: one JSON line for each update and each check, and the same for TensorBoard.

A resumed run cuts both back to the update that its checkpoint holds, so that they read like those of a run
that nothing interrupted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inkplex_data.atomic import naming_full_disks, replacing
from inkplex_data.errors import CheckpointError
from inkplex_data.libraries import require

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
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    row = json.loads(line)
                    row["update"] + 0
                except (ValueError, KeyError, TypeError) as error:
                    raise CheckpointError(
                        f"not a line of a run's metrics: {error}",
                        where=f"{self.path}:{number}",
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

    Raises MissingLibraryError where TensorBoard is wanted and not installed.
    """

    def __init__(self, folder: Path, *, done: int = 0, tensorboard: bool = True) -> None:
        self.updates = JsonLines(folder / UPDATES_FILE)
        self.checks = JsonLines(folder / CHECKS_FILE)
        self.updates.cut(done)
        self.checks.cut(done)
        self._board: Any = None
        if tensorboard:
            require("tensorboard", extra="train", needed_for="TensorBoard logs")
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / BOARD_FOLDER), purge_step=done + 1)

    def update(self, row: Mapping[str, Any]) -> None:
        """What one update did; `row` has an `update`."""
        self.updates.append(row)
        self._plot("train", row)

    def check(self, row: Mapping[str, Any]) -> None:
        """What one check on the panel found; `row` has an `update`."""
        self.checks.append(row)
        self._plot("check", row)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _plot(self, group: str, row: Mapping[str, Any]) -> None:
        if self._board is not None:
            for name, value in _flat(group, row):
                self._board.add_scalar(name, value, row["update"])
            self._board.flush()


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
