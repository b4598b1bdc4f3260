"""Signals that end a run in order: it finishes the update that it is at, saves itself, and says how it goes on."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

log = logging.getLogger(__name__)


class StopSignals(AbstractContextManager["StopSignals"]):
    """Notes the first signal within the block; a second one interrupts at once. Only the main thread hears any."""

    def __init__(self) -> None:
        self.heard: str | None = None
        """Name of the signal that asked for an end."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.heard is not None:
            raise KeyboardInterrupt
        self.heard = signal.Signals(number).name
        log.warning(
            "%s: the run ends after this update, and saves itself; once more ends it at once", self.heard
        )
