"""The frozen panel: the validation tasks that every periodic check of a run covers.

A task is one recording; the panel has one call of it. The choice depends on ids and a seed alone, and is
written down when a run begins, so that all its checks, also after `build --add`, compare the same calls.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import polars as pl

from inkplex_data.atomic import write_json
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.reading import read_bounded

TASKS = 48
SCHEMA = "inkplex/panel@1"
_MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Panel:
    """Calls in a fixed order. `tasks` is how many were asked for; a small split has fewer."""

    split: str
    seed: int
    tasks: int
    calls: tuple[str, ...]


def choose_panel(
    calls: pl.DataFrame, *, split: str = "validation", tasks: int = TASKS, seed: int = 0
) -> Panel:
    """Draw up to `tasks` tasks of a split, spread over its families as evenly as they allow.

    calls: columns call_id, split, family, recording_id. Calls without a recording have no memory to check and
    are left out. Raises ConfigError where nothing is left.
    """
    able = calls.filter(pl.col("split") == split, pl.col("recording_id").is_not_null())
    if not able.height or tasks < 1:
        raise ConfigError(
            f"a panel of {tasks} tasks cannot be drawn: split {split!r} has {able.height} calls with a recording",
            next_step="Build a store whose split has calls with recordings, name another one with checks.split, "
            "or train without checks: --set checks=null.",
        )
    by_family: dict[str, dict[str, list[str]]] = {}
    for call_id, family, recording in able.select("call_id", "family", "recording_id").iter_rows():
        by_family.setdefault(family, {}).setdefault(recording, []).append(call_id)
    # Families take turns, so that a family with many tasks crowds nobody out and resampling has many to draw.
    rows = zip_longest(
        *(
            [min(by_family[family][task], key=lambda call: _digest(seed, "call", call)) for task in order]
            for family in sorted(by_family, key=lambda name: _digest(seed, "family", name))
            for order in [sorted(by_family[family], key=lambda task: _digest(seed, "task", task))]
        )
    )
    chosen = [call for row in rows for call in row if call is not None]
    return Panel(split, seed, tasks, tuple(chosen[:tasks]))


def write_panel(path: Path, panel: Panel) -> None:
    """Write a panel; `path` is replaced whole."""
    body = {"schema": SCHEMA, **vars(panel), "calls": list(panel.calls)}
    write_json(path, body, indent=1)


def read_panel(path: Path) -> Panel:
    """Read a panel that `write_panel` wrote. Raises CheckpointError where the file is no such thing."""
    try:
        body = parse_json(read_bounded(path, _MAX_BYTES))
        if body["schema"] != SCHEMA or not all(isinstance(call, str) for call in body["calls"]):
            raise ValueError(f"not {SCHEMA}")
        return Panel(str(body["split"]), int(body["seed"]), int(body["tasks"]), tuple(body["calls"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"the panel of this run cannot be read: {error}", where=str(path)) from error


def _digest(seed: int, use: str, name: str) -> str:
    return hashlib.sha256(f"{seed}\0panel\0{use}\0{name}".encode()).hexdigest()
