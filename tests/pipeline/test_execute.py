"""Units of work: failures and dead workers stop nobody else."""

from __future__ import annotations

import os
import signal

import pytest

from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.pipeline.execute import InlineExecutor, LocalExecutor, WorkerDied, make_executor


def work(number: int) -> int:
    if number == 3:
        raise CallRefused("unexpected", "three is refused", where="item 3")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def test_inline_reports_each_outcome() -> None:
    outcomes = list(InlineExecutor().map(work, [1, 3, 4]))
    assert [outcome.value for outcome in outcomes] == [1, None, 16]
    assert isinstance(outcomes[1].error, CallRefused)


def test_a_killed_worker_takes_only_its_own_unit_down() -> None:
    executor = LocalExecutor(2)
    try:
        outcomes = {outcome.index: outcome for outcome in executor.map(work, list(range(8)))}
        again = {outcome.index: outcome.value for outcome in executor.map(work, [7, 8])}
    finally:
        executor.close()
    assert sorted(outcomes) == list(range(8))
    assert isinstance(outcomes[3].error, CallRefused)
    assert outcomes[3].error.code == "unexpected"
    assert outcomes[3].error.where == "item 3"
    assert isinstance(outcomes[5].error, WorkerDied)
    assert {index: outcome.value for index, outcome in outcomes.items() if index not in (3, 5)} == {
        index: index * index for index in (0, 1, 2, 4, 6, 7)
    }
    assert again == {0: 49, 1: 64}


def test_options_that_exclude_each_other_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="cannot be used together"):
        make_executor(workers=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(UsageError, match="at least 1"):
        make_executor(workers=0)
