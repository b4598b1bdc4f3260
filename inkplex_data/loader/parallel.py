"""One long read of states on several threads: with calls larger than what is read ahead, it is the only one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import TYPE_CHECKING, Final

from inkplex_data.store.states_plan import StatesGeometry
from inkplex_data.store.states_read import StatesReader

if TYPE_CHECKING:
    import torch

PART_BYTES: Final = 2**24
"""Long enough that handing it to a thread costs nothing beside reading it, short enough to share out evenly."""


class ParallelReader:
    """Reads runs of rows on `threads` threads of its own; on the caller's if there are none."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def read_rows(self, states: StatesReader, start: int, stop: int, out: torch.Tensor) -> None:
        """Rows [start, stop) into `out`, bfloat16 [stop − start, R, D] on the CPU, every chunk verified.

        All threads are done with `out` when this returns or raises. Raises what `StatesReader.read_rows` does.
        """
        spans = list(parts(start, stop, states.geometry))
        if not self._threads or len(spans) < 2:
            states.read_rows(start, stop, out)
            return
        pool = self._started()
        reads = [
            pool.submit(states.read_rows, first, last, out[first - start : last - start])
            for first, last in spans
        ]
        wait(reads)
        for read in reads:
            read.result()

    def close(self) -> None:
        """End the threads once no read is under way; a later read starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "loader-states")
            return self._pool


def parts(start: int, stop: int, geometry: StatesGeometry) -> Iterator[tuple[int, int]]:
    """[start, stop) cut at borders of inner chunks, so that none is read twice, into parts of some PART_BYTES."""
    rows = max(PART_BYTES // geometry.chunk_bytes, 1) * geometry.inner_rows
    while start < stop:
        end = min((start // rows + 1) * rows, stop)
        yield start, end
        start = end
