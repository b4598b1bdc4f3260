"""Run units of work: in this process, in local processes, or on Dask (`execute_dask.py`). Knows nothing of calls.

A unit is a picklable function and one picklable argument. Results come back in any order with the index
of their argument, so that the caller decides what order means.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Final, Generic, Protocol, TypeVar

from inkplex_data.errors import MachineFault, UsageError

PR_SET_PDEATHSIG: Final = 1
"""`prctl`: the signal that a process gets when its parent dies."""

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of the argument at `index`: `value`, or the exception that stopped it."""

    index: int
    value: R | None = None
    error: BaseException | None = None


class Executor(Protocol):
    """Maps a function over arguments; `workers` is how many run at once, one where they are to run `alone`."""

    @property
    def workers(self) -> int: ...
    def map(
        self, function: Callable[[A], R], arguments: Sequence[A], *, alone: bool = False
    ) -> Iterator[Outcome[R]]: ...
    def close(self, *, cancel: bool = False) -> None: ...


class WorkerDied(MachineFault):
    """A worker process was killed over a unit, and killed again where that ran alone: out of memory, most likely."""

    is_final = True


class WorkerCrashed(RuntimeError):
    """A worker process crashed over a unit, twice: a fault in a library's own code, which this unit's data meets."""


class InlineExecutor:
    """One after the other, in this process."""

    workers = 1

    def map(
        self, function: Callable[[A], R], arguments: Sequence[A], *, alone: bool = False
    ) -> Iterator[Outcome[R]]:
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
            self.workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker
        )

    def map(
        self, function: Callable[[A], R], arguments: Sequence[A], *, alone: bool = False
    ) -> Iterator[Outcome[R]]:
        waiting = list(range(len(arguments)))[::-1]
        running: dict[Future[R], int] = {}
        while waiting or running:
            while waiting and len(running) < (1 if alone else 2 * self.workers):
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
            future = self._pool.submit(function, arguments[index])
            processes = self._pool._processes or {}
            try:
                yield Outcome(index, value=future.result())
            except BrokenProcessPool:
                yield Outcome(index, error=_death(processes.values()))
                self._pool = self._new_pool()
            except Exception as error:
                yield Outcome(index, error=error)

    def close(self, *, cancel: bool = False) -> None:
        processes = list((self._pool._processes or {}).values()) if cancel else []
        self._pool.shutdown(wait=not cancel, cancel_futures=True)
        for process in processes:
            process.terminate()


def make_executor(
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    wait_s: float | None = None,
    note: Callable[[str], None] = print,
) -> Executor:
    """Dask when a scheduler is named, else local processes; one worker runs in this process.

    `wait_s` and `note`: as `DaskExecutor` has them.
    """
    if scheduler is not None:
        if workers is not None:
            raise UsageError(
                "--workers and --scheduler cannot be used together",
                next_step="Start a scheduler's workers with `dask worker`.",
            )
        from inkplex_data.pipeline.execute_dask import DaskExecutor

        return DaskExecutor(scheduler, wait_s=wait_s, note=note)
    if wait_s is not None:
        raise UsageError("--wait is for the workers of --scheduler", next_step="Leave it out.")
    count = workers if workers is not None else (os.cpu_count() or 1)
    if count < 1:
        raise UsageError(f"--workers must be at least 1 (got {count})")
    return InlineExecutor() if count == 1 else LocalExecutor(count)


def _death(processes: Iterable[BaseProcess]) -> Exception:
    """What became of a pool's worker that ran one unit: killed, or crashed."""
    codes = []
    for process in processes:
        process.join()
        codes.append(process.exitcode)
    for crash in (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE):
        if -crash in codes:
            return WorkerCrashed(f"its worker process crashed twice ({crash.name})")
    return WorkerDied(
        "the worker process was killed twice, the second time with no other beside it",
        next_step="It may need more memory than is available: use a larger machine, or take the call out; "
        "then run the same command again.",
    )


def _begin_worker() -> None:
    """Make this process one that ends with its parent, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    if sys.platform == "linux":
        # The kernel's own way ends a worker even inside a library's long call.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()
