"""What a loader has done: speed, and how long its user waited for it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderReport:
    """Counts since the loader was made or last reset.

    A wait fraction near 0 means that loading is hidden behind the training step; near 1, that the step waits
    for bytes: more workers, or a faster disk.
    """

    batches: int
    bytes_: int
    seconds: float
    """From the first batch that was asked for until the last one was handed out."""
    wait_s: float
    """Of these, spent waiting for a batch."""
    queue_depth: float
    """Batches that were ready when one was asked for, on average."""

    @property
    def bytes_per_s(self) -> float:
        return self.bytes_ / self.seconds if self.seconds else 0.0

    @property
    def wait_fraction(self) -> float:
        return self.wait_s / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        return (
            f"{self.batches} batches, {self.bytes_per_s / 1e9:.2f} GB/s, waited {self.wait_fraction:.1%} of "
            f"{self.seconds:.1f} s, {self.queue_depth:.1f} batches ready"
        )


class Meter:
    """Collects a report."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._batches = self._bytes = self._depth = 0
        self._seconds = self._wait_s = 0.0

    def handed_out(self, asked: float, depth: int, bytes_: int) -> None:
        """A batch was handed out now; it was asked for at `asked`, of `time.perf_counter`."""
        now = time.perf_counter()
        if self._began is None:
            self._began = asked
        self._batches += 1
        self._bytes += bytes_
        self._depth += depth
        self._wait_s += now - asked
        self._seconds = now - self._began

    def report(self) -> LoaderReport:
        return LoaderReport(
            self._batches,
            self._bytes,
            self._seconds,
            self._wait_s,
            self._depth / self._batches if self._batches else 0.0,
        )
