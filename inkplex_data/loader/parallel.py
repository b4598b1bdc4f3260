"""One long read of states on several threads: of calls so large that fewer are read ahead than there are workers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

from inkplex_data.store.arrays.states_geometry import StatesGeometry
from inkplex_data.store.arrays.states_read import StatesReader

if TYPE_CHECKING:
    import torch


class ParallelReader:
    """Reads runs of rows on up to `threads` threads of its own.

    Python's lock makes threads that read many small pieces slower than one, so a read is divided only where
    threads would have nothing to do: `ahead_bytes` is what may be read ahead at a time.
    """

    def __init__(self, threads: int, ahead_bytes: int) -> None:
        self._threads, self._ahead_bytes = threads, ahead_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    @contextmanager
    def reading(self, states: StatesReader, start: int, stop: int, out: torch.Tensor) -> Iterator[None]:
        """Within the block, rows [start, stop) are read into `out`, bfloat16 [stop − start, R, D] on the CPU.

        After it they are there, every chunk verified; all threads are done with `out`, whatever was raised.
        Raises what `StatesReader.read_rows` does.
        """
        at_a_time = max(self._ahead_bytes // max(out.nbytes, 1), 1)
        spans = parts(start, stop, states.geometry, -(-self._threads // at_a_time))
        if len(spans) < 2:
            states.read_rows(start, stop, out)
            yield
            return
        pool = self._started()
        reads = [
            pool.submit(states.read_rows, first, last, out[first - start : last - start])
            for first, last in spans
        ]
        try:
            yield
        finally:
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


def parts(start: int, stop: int, geometry: StatesGeometry, count: int) -> list[tuple[int, int]]:
    """[start, stop) in up to `count` even parts, cut at borders of inner chunks so that none is read twice."""
    first, last = start // geometry.inner_rows, -(-stop // geometry.inner_rows)
    count = min(count, last - first)
    edges = [(first + (last - first) * part // count) * geometry.inner_rows for part in range(1, count)]
    return list(pairwise([start, *edges, stop]))
