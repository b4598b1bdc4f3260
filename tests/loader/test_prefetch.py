"""Order, bounds and endings of the work that is done ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.loader.prefetch import ByteBudget, Prefetcher


def prefetcher(sizes: list[int], *, workers: int, limit: int, work=lambda task: task) -> Prefetcher:  # type: ignore[no-untyped-def]
    return Prefetcher(
        iter(enumerate(sizes)), work, size=lambda task: task[1], workers=workers, limit_bytes=limit
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=25), st.integers(1, 4), st.integers(1, 60))
def test_results_come_in_order_and_within_the_budget(sizes: list[int], workers: int, limit: int) -> None:
    """Whatever the sizes: later tasks never hold up the one that is wanted next, and all are done."""
    ahead = prefetcher(sizes, workers=workers, limit=limit)
    assert list(ahead) == list(enumerate(sizes))
    assert ahead.budget.used_bytes == 0
    assert ahead.budget.most_bytes <= max([limit, *sizes])
    ahead.close()


def test_work_goes_on_while_results_wait_until_the_budget_is_full() -> None:
    begun = [threading.Event() for _ in range(8)]

    def work(task: tuple[int, int]) -> int:
        begun[task[0]].set()
        return task[0]

    ahead = prefetcher([10] * 8, workers=2, limit=30, work=work)
    assert all(event.wait(10) for event in begun[:3])
    assert not any(event.is_set() for event in begun[3:])
    # One result taken makes room for one more task; the rest has to wait.
    next(ahead)
    assert begun[3].wait(10)
    assert not any(event.is_set() for event in begun[4:])
    assert [*ahead] == list(range(1, 8))


def test_a_slow_first_task_keeps_its_place() -> None:
    later_done = threading.Event()

    def work(task: tuple[int, int]) -> int:
        if task[0] == 0:
            assert later_done.wait(10)
        if task[0] == 3:
            later_done.set()
        return task[0]

    assert list(prefetcher([1] * 6, workers=2, limit=100, work=work)) == list(range(6))


def test_an_error_is_raised_in_its_place_and_ends_the_work() -> None:
    def work(task: tuple[int, int]) -> int:
        if task[0] == 3:
            raise KeyError("three")
        return task[0]

    ahead = prefetcher([1] * 9, workers=3, limit=100, work=work)
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)
    assert list(ahead) == []
    assert not any(thread.is_alive() for thread in ahead._threads)


def test_an_error_of_the_tasks_comes_after_the_results_before_it() -> None:
    def tasks() -> Iterator[int]:
        yield from range(4)
        raise RuntimeError("no more")

    ahead: Prefetcher[int, int] = Prefetcher(
        tasks(), lambda task: task * 2, size=lambda _: 1, workers=2, limit_bytes=2
    )
    assert [next(ahead) for _ in range(4)] == [0, 2, 4, 6]
    with pytest.raises(RuntimeError, match="no more"):
        next(ahead)


def test_preparation_needs_no_room() -> None:
    """The tasks that wait for room are prepared meanwhile, as many as there are workers."""
    prepared = [threading.Event() for _ in range(8)]

    def prepare(task: tuple[int, int]) -> tuple[int, int]:
        prepared[task[0]].set()
        return task[0], task[1] * 2

    ahead = Prefetcher(
        iter(enumerate([10] * 8)),
        lambda task: task,
        prepare=prepare,
        size=lambda task: task[1],
        workers=2,
        limit_bytes=20,
    )
    assert all(event.wait(10) for event in prepared[:3])
    assert not any(event.is_set() for event in prepared[3:])
    assert list(ahead) == [(number, 20) for number in range(8)]
    assert ahead.budget.most_bytes == 20


def test_an_error_of_the_preparation_is_raised_in_its_place() -> None:
    def prepare(task: int) -> int:
        if task == 2:
            raise KeyError("two")
        return task

    ahead: Prefetcher[int, int] = Prefetcher(
        iter(range(9)), lambda task: task, prepare=prepare, size=lambda _: 1, workers=3, limit_bytes=1
    )
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(KeyError, match="two"):
        next(ahead)


def test_closing_lets_everybody_go() -> None:
    ahead = prefetcher([10] * 100, workers=3, limit=10)
    assert next(ahead) == (0, 10)
    ahead.close()
    assert list(ahead) == []
    assert not any(thread.is_alive() for thread in ahead._threads)


def test_one_can_read_ahead_of_another() -> None:
    first = prefetcher([5] * 20, workers=2, limit=15)
    second: Prefetcher[tuple[int, int], int] = Prefetcher(
        first, lambda task: task[0], size=lambda _: 5, workers=1, limit_bytes=1
    )
    assert list(second) == list(range(20))
    assert second.budget.most_bytes == 5


def test_a_budget_that_is_closed_gives_no_room() -> None:
    budget = ByteBudget(10)
    assert budget.claim(0, 99)
    waiting = threading.Thread(target=lambda: results.append(budget.claim(1, 1)))
    results: list[bool] = []
    waiting.start()
    budget.close()
    waiting.join(10)
    assert results == [False]
