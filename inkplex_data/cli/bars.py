"""The progress bar of verbs other than `build`: only on a terminal, and on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    what: str, *, in_bytes: bool = False, rate: str = ""
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes how much is done and how much there is to do. `rate`: the unit of a speed to show."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f} {rate}")

    counts = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if in_bytes
        else (progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    )
    speed = (Rate(),) if rate else ()
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *counts, *speed)
    with progress.Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
