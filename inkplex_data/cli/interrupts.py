"""Signals that stop a command, and what is said then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from typer.core import TyperGroup

from inkplex_data.errors import Interrupted


def catch_signals() -> None:
    """SIGTERM, and SIGHUP unless it is ignored (`nohup`), stop a command as Ctrl-C does: in order."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """A stop within the block ends in a sentence that says `how` the work goes on. Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted", next_step=how) from None


class StoppableVerbs(TyperGroup):
    """Verbs that say what to do after a stop. One that has more to say of it says it itself."""

    def invoke(self, ctx: Any) -> Any:
        """Raises Interrupted in place of KeyboardInterrupt, which Typer would end without a sentence."""
        with going_on("Run the same command again; nothing half-made is in its way."):
            return super().invoke(ctx)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
