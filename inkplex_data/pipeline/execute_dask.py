"""Units of work on the workers of a Dask scheduler, which must see the corpus and the store at the same paths."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from inkplex_data.errors import MachineFault, UsageError
from inkplex_data.libraries import require
from inkplex_data.pipeline.execute import A, Outcome, R

IN_FLIGHT: Final = 3
"""Units that a worker's thread has or is about to get: more would only fill the scheduler's memory."""
LOOK_S: Final = 1.0
SAY_AFTER_S: Final = 5.0
WAIT_S: Final = 300.0
"""How long a build waits for the first worker, or for one to come back, if nobody says otherwise."""


class DaskExecutor:
    """A `dask.distributed` scheduler. `note` is told when there is nobody to work; after `wait_s` the build stops."""

    def __init__(self, address: str, *, wait_s: float | None = None, note: Callable[[str], None]) -> None:
        distributed = require("distributed", extra="dask", needed_for="--scheduler")
        self._address, self._note = address, note
        self._wait_s = WAIT_S if wait_s is None else wait_s
        try:
            self._client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {address!r}: {error}",
                next_step="Start one with `dask scheduler`, or use --workers.",
            ) from error
        self._killed: type[Exception] = distributed.scheduler.KilledWorker

    @property
    def workers(self) -> int:
        return max(1, self._threads())

    def map(
        self, function: Callable[[A], R], arguments: Sequence[A], *, alone: bool = False
    ) -> Iterator[Outcome[R]]:
        waiting = list(range(len(arguments)))[::-1]
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        running: dict[str, tuple[int, Any]] = {}
        idle_since_s: float | None = None
        told = False
        threads = self._threads()
        while waiting or running:
            while waiting and len(running) < (1 if alone else max(1, threads) * IN_FLIGHT):
                index = waiting.pop()
                # pure=False: a unit writes files, so two equal arguments are two pieces of work.
                future = self._submit(function, arguments[index])
                running[future.key] = (index, future)
                future.add_done_callback(done.put)
            try:
                future = done.get(timeout=LOOK_S)
            except queue.Empty:
                threads = self._threads()
                now_s = time.monotonic()
                idle_since_s = None if threads else now_s if idle_since_s is None else idle_since_s
                idle_s = 0.0 if idle_since_s is None else now_s - idle_since_s
                if idle_s >= self._wait_s:
                    self._stop(f"no worker came to {self._address} for {self._wait_s:g} s")
                if idle_s >= SAY_AFTER_S and not told:
                    told = True
                    self._note(
                        f"no Dask worker is at {self._address} ({self._client.dashboard_link}); "
                        f"start one with `dask worker {self._address}`, or stop with Ctrl-C"
                    )
                continue
            idle_since_s, told = None, False
            index, _ = running.pop(future.key)
            yield self._outcome(index, future)
            future.release()

    def close(self, *, cancel: bool = False) -> None:
        try:
            self._client.close(timeout=2 if cancel else None)
        except (OSError, TimeoutError):
            return  # of a scheduler that is gone already

    def _submit(self, function: Callable[[A], R], argument: A) -> Any:
        try:
            return self._client.submit(function, argument, pure=False, retries=1)
        except (OSError, RuntimeError) as error:
            self._stop(f"the Dask scheduler at {self._address} is gone ({error})")

    def _outcome(self, index: int, future: Any) -> Outcome[Any]:
        if future.status == "finished":
            try:
                return Outcome(index, value=future.result(timeout=60))
            except (OSError, TimeoutError) as error:
                self._stop(f"the Dask scheduler at {self._address} is gone ({error})")
        if future.status != "error":
            self._stop(f"the Dask scheduler at {self._address} is gone: a unit is {future.status}")
        found = future.exception()
        if isinstance(found, self._killed):
            fault = MachineFault(
                "Dask workers died over the unit, several times",
                next_step="They may need more memory than they have; then run the same command again.",
            )
            fault.is_final = True
            return Outcome(index, error=fault)
        return Outcome(index, error=found)

    def _threads(self) -> int:
        """Threads of all workers. Raises MachineFault where the scheduler does not answer."""
        if self._client.status != "running":
            self._stop(f"the Dask scheduler at {self._address} is gone")
        try:
            return sum(self._client.nthreads().values())
        except (OSError, TimeoutError, RuntimeError) as error:
            self._stop(f"the Dask scheduler at {self._address} does not answer ({error})")

    def _stop(self, what: str) -> NoReturn:
        fault = MachineFault(
            what,
            next_step="Start it again with its workers, then run the same command again, which goes on from here.",
        )
        fault.is_final = True
        raise fault
