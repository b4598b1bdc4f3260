"""What a forked process may do. Polars' threads do not survive a fork, and its next query there would wait for ever."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NoReturn

import polars as pl

from inkplex_data.errors import UsageError

_TASKS: Final = Path("/proc/self/task")
_POLARS_THREAD: Final = re.compile(r"polars-\d|async-executor|tokio-rt")
"""Names of the threads that Polars starts with its first query; those of its import do no harm."""
_RUNNING: Final = (
    "collect",
    "collect_async",
    "collect_batches",
    "fetch",
    "sink_parquet",
    "sink_csv",
    "sink_ipc",
    "sink_ndjson",
)
"""Methods of a LazyFrame that run it."""
_had_threads = False
_lost_threads = False


def _is_polars(task: Path) -> bool:
    try:
        return _POLARS_THREAD.match((task / "comm").read_text()) is not None
    except OSError:  # the thread has ended
        return False


def _look() -> None:
    global _had_threads  # noqa: PLW0603 - of this process, as its threads are
    # Where threads cannot be listed they are taken to be there: waiting for ever would be worse.
    _had_threads = not _TASKS.is_dir() or any(map(_is_polars, _TASKS.iterdir()))


def _lose() -> None:
    global _lost_threads  # noqa: PLW0603
    _lost_threads = _lost_threads or _had_threads
    if _lost_threads:
        # A query that was made before would wait in Polars itself, where no store is asked any more.
        for name in _RUNNING:
            setattr(pl.LazyFrame, name, _refuse_query)


def _refuse_query(*_: object, **__: object) -> NoReturn:
    check_fork("a query")
    raise AssertionError("threads were lost")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_lose)


def check_fork(where: str) -> None:
    """Raise UsageError in a process that was forked from one in which tables had been read."""
    if _lost_threads:
        raise UsageError(
            "tables were read before this process was forked, and Polars, whose threads are gone, cannot read here",
            where=where,
            next_step="Start workers by `spawn` or `forkserver` (`multiprocessing.get_context`, and the same "
            "as `multiprocessing_context` of a DataLoader), or fork before the first store is read.",
        )
