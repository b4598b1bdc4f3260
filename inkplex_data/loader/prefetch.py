"""Doing work ahead on threads: results in the order of the tasks, and never more bytes ahead than allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class ByteBudget:
    """Bytes that may be in use at a time, given out in the order of turns 0, 1, 2 …

    One claim alone passes whatever its size, so nothing waits forever.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.most_bytes = 0
        self._changed = threading.Condition()
        self._turn = 0
        self._open = True

    def claim(self, turn: int, size_bytes: int) -> bool:
        """Wait for the turn and until there is room, and take it. False once the budget is closed."""

        def may_go() -> bool:
            fits = not self.used_bytes or self.used_bytes + size_bytes <= self.limit_bytes
            return not self._open or (turn == self._turn and fits)

        with self._changed:
            self._changed.wait_for(may_go)
            if self._open:
                self._turn += 1
                self.used_bytes += size_bytes
                self.most_bytes = max(self.most_bytes, self.used_bytes)
                self._changed.notify_all()
            return self._open

    def release(self, size_bytes: int) -> None:
        with self._changed:
            self.used_bytes -= size_bytes
            self._changed.notify_all()

    def close(self) -> None:
        """Let everybody go who waits."""
        with self._changed:
            self._open = False
            self._changed.notify_all()


class Prefetcher(Generic[Task, Result]):
    """Iterates over `work(task)` for each task, in order, worked out ahead by `workers` threads.

    A task's bytes are claimed in order before its work begins, so the result that is wanted next always has
    its room already: however small the budget, later tasks cannot hold it up. They are given back when the
    result is taken. `prepare` is the part of the work that needs no room to speak of, and is done before there
    is any. An error is raised in its task's place in the order, and ends the iteration.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        work: Callable[[Task], Result],
        *,
        size: Callable[[Task], int],
        workers: int,
        limit_bytes: int,
        prepare: Callable[[Task], Task] | None = None,
        name: str = "loader",
    ) -> None:
        self._tasks, self._prepare, self._work, self._size = tasks, prepare, work, size
        self.budget = ByteBudget(limit_bytes)
        self._turn = threading.Lock()
        self._ready = threading.Condition()
        self._results: dict[int, tuple[Result | None, BaseException | None, int]] = {}
        self._started = 0
        self._taken = 0
        self._end: int | None = None
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{worker}", daemon=True)
            for worker in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def depth(self) -> int:
        """Results that are ready."""
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        with self._ready:
            self._ready.wait_for(
                lambda: self._closed or self._taken in self._results or self._taken == self._end
            )
            if self._closed or self._taken not in self._results:
                raise StopIteration
            result, error, size_bytes = self._results.pop(self._taken)
            self._taken += 1
        self.budget.release(size_bytes)
        if error is not None:
            self.close()
            raise error
        return result  # type: ignore[return-value]

    def close(self) -> None:
        """Stop; waits for work that has begun."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        self.budget.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._results.clear()

    def _run(self) -> None:
        while not self._closed:
            with self._turn:
                number, task, failure = self._next_task()
            if number is None:
                return
            result: Result | None = None
            size_bytes = 0
            try:
                if failure is None:
                    if self._prepare is not None:
                        task = self._prepare(task)  # type: ignore[arg-type]
                    size_bytes = self._size(task)  # type: ignore[arg-type]
            except BaseException as error:
                failure = error
            if not self.budget.claim(number, size_bytes):
                return
            if failure is None:
                try:
                    result = self._work(task)  # type: ignore[arg-type]
                except BaseException as error:
                    failure = error
            del task
            with self._ready:
                if not self._closed:
                    self._results[number] = (result, failure, size_bytes)
                    self._ready.notify_all()
                # Within the lock: once it is taken, nobody but its user may hold it.
                del result, failure

    def _next_task(self) -> tuple[int | None, Task | None, BaseException | None]:
        if self._closed or self._end is not None:
            return None, None, None
        task: Task | None = None
        failure: BaseException | None = None
        try:
            task = next(self._tasks)
        except StopIteration:
            with self._ready:
                self._end = self._started
                self._ready.notify_all()
            return None, None, None
        except BaseException as error:
            failure = error
        number = self._started
        self._started += 1
        if failure is not None:
            with self._ready:
                self._end = self._started
        return number, task, failure
