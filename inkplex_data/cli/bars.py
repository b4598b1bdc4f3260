"""The progress bar of verbs other than `build`: only on a terminal, and on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes how much is done and how much there is to do."""
    from rich import progress
    from rich.console import Console

    counts = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if in_bytes
        else (progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    )
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *counts)
    with progress.Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
