"""Units of work: failures and dead workers stop nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inkplex_data.errors import CallRefused, MachineFault, UsageError
from inkplex_data.pipeline.execute import (
    InlineExecutor,
    LocalExecutor,
    WorkerCrashed,
    WorkerDied,
    make_executor,
)


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


def crash(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    return number


def test_a_crash_in_native_code_is_the_units_and_a_kill_is_the_machines() -> None:
    executor = LocalExecutor(2)
    try:
        outcomes = {outcome.index: outcome for outcome in executor.map(crash, [0, 1, 2])}
    finally:
        executor.close()
    assert isinstance(outcomes[1].error, WorkerCrashed)
    assert "SIGSEGV" in str(outcomes[1].error)
    assert not isinstance(outcomes[1].error, MachineFault)
    assert issubclass(WorkerDied, MachineFault) and WorkerDied.is_final


PARENT = """
import os, sys, time
from inkplex_data.pipeline.execute import LocalExecutor

def slow(number):
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, as two processes write here
    time.sleep(600)

if __name__ == "__main__":
    list(LocalExecutor(2).map(slow, [0, 1]))
"""


def _is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it ended meanwhile
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_their_build(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(number)
    parent.wait()
    # The pipe ends when the last process that holds it has ended.
    assert parent.stdout.read() == ""
    deadline = time.monotonic() + 10  # files are closed a moment before a process is gone
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_is_alive, workers))
