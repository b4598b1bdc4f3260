"""Run units of work: in this process, in local processes, or on a Dask cluster. Knows nothing of calls.

A unit is a picklable function and one picklable argument. Results come back in any order with the index
of their argument, so that the caller decides what order means.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from inkplex_data.errors import UsageError
from inkplex_data.libraries import require

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of the argument at `index`: `value`, or the exception that stopped it."""

    index: int
    value: R | None = None
    error: BaseException | None = None


class Executor(Protocol):
    """Maps a function over arguments; `workers` is how many run at once."""

    @property
    def workers(self) -> int: ...
    def map(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[Outcome[R]]: ...
    def close(self, *, cancel: bool = False) -> None: ...


class WorkerDied(RuntimeError):
    """A worker process ended without an answer, twice for the same unit (out of memory, or killed)."""


class InlineExecutor:
    """One after the other, in this process."""

    workers = 1

    def map(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[Outcome[R]]:
        for index, argument in enumerate(arguments):
            try:
                yield Outcome(index, value=function(argument))
            except Exception as error:
                yield Outcome(index, error=error)

    def close(self, *, cancel: bool = False) -> None: ...


class LocalExecutor:
    """Local processes. A worker that dies takes down neither the run nor the units beside it."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        # spawn: forked children of a process that has loaded torch can hang in its thread pools.
        return ProcessPoolExecutor(
            self.workers, mp_context=multiprocessing.get_context("spawn"), initializer=_quiet_worker
        )

    def map(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[Outcome[R]]:
        waiting = list(range(len(arguments)))[::-1]
        running: dict[Future[R], int] = {}
        while waiting or running:
            while waiting and len(running) < 2 * self.workers:
                index = waiting.pop()
                try:
                    running[self._pool.submit(function, arguments[index])] = index
                except BrokenProcessPool:
                    waiting.append(index)
                    break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            broken = not done
            for future in done:
                index = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    broken = True
                    running[future] = index
                elif error is not None:
                    yield Outcome(index, error=error)
                else:
                    yield Outcome(index, value=future.result())
            if broken:
                suspects = sorted(running.values())
                running = {}
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = self._new_pool()
                yield from self._try_alone(function, arguments, suspects)

    def _try_alone(
        self, function: Callable[[A], R], arguments: Sequence[A], suspects: Iterable[int]
    ) -> Iterator[Outcome[R]]:
        # Every unit that was in flight may be the one that killed the worker; alone, only the guilty one dies.
        for index in suspects:
            try:
                yield Outcome(index, value=self._pool.submit(function, arguments[index]).result())
            except BrokenProcessPool:
                self._pool = self._new_pool()
                yield Outcome(
                    index,
                    error=WorkerDied(
                        "its worker process died twice; it may need more memory than is available"
                    ),
                )
            except Exception as error:
                yield Outcome(index, error=error)

    def close(self, *, cancel: bool = False) -> None:
        processes = list((self._pool._processes or {}).values()) if cancel else []
        self._pool.shutdown(wait=not cancel, cancel_futures=True)
        for process in processes:
            process.terminate()


class DaskExecutor:
    """A `dask.distributed` scheduler. Workers must see the corpus and the store at the same paths."""

    def __init__(self, address: str) -> None:
        distributed = require("distributed", extra="dask", needed_for="--scheduler")
        try:
            self._client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {address!r}: {error}",
                next_step="Start one with `dask scheduler`, or use --workers.",
            ) from error
        self._completed = distributed.as_completed

    @property
    def workers(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def map(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[Outcome[R]]:
        # pure=False: a unit writes files, so two equal arguments are two pieces of work.
        futures = {
            self._client.submit(function, argument, pure=False, retries=1): index
            for index, argument in enumerate(arguments)
        }
        for future in self._completed(list(futures), loop=self._client.loop):
            index = futures[future]
            error: Any = future.exception()
            yield Outcome(index, error=error) if error is not None else Outcome(index, value=future.result())
            future.release()

    def close(self, *, cancel: bool = False) -> None:
        self._client.close()


def make_executor(*, workers: int | None = None, scheduler: str | None = None) -> Executor:
    """Dask when a scheduler is named, else local processes; one worker runs in this process."""
    if scheduler is not None:
        if workers is not None:
            raise UsageError(
                "--workers and --scheduler cannot be used together",
                next_step="Start a scheduler's workers with `dask worker`.",
            )
        return DaskExecutor(scheduler)
    count = workers if workers is not None else (os.cpu_count() or 1)
    if count < 1:
        raise UsageError(f"--workers must be at least 1 (got {count})")
    return InlineExecutor() if count == 1 else LocalExecutor(count)


def _quiet_worker() -> None:
    # Ctrl-C is the parent's: it stops submitting, and ends the workers itself.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
