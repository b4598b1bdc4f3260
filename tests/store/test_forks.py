"""A forked process reads a store, or is told that it cannot; it never waits. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.store.made import Made

READ = """
import os, sys
import inkplex_data as ink

root, before, how = sys.argv[1:]
store = ink.open_store(root)
if before == "read":
    store.calls().collect()
    frames = store.frames()
elif before == "locked":
    store._lock.acquire()

def child():
    try:
        if how == "query":
            print(frames.collect().height)
        one = ink.open_store(root) if how == "opened anew" else store
        print(one.call("first").codes.shape, one.frames().collect().height, one.call_ids[-1])
    except ink.errors.UsageError as error:
        print(error)

if how == "multiprocessing":
    import multiprocessing
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
else:
    pid = os.fork()
    if not pid:
        child()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
print("parent", store.call("first").codes.shape)
"""


@pytest.mark.parametrize("how", ["as it was", "opened anew", "multiprocessing"])
@pytest.mark.parametrize("before", ["opened", "locked", "read"])
def test_a_store_in_a_forked_process(made: Made, before: str, how: str) -> None:
    command = [sys.executable, "-c", READ, made.root, before, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    child, parent = done.stdout.rsplit("parent", maxsplit=1)
    assert parent.strip() == "(16, 3000)"
    if before == "read":
        assert "tables were read before this process was forked" in child
        assert "→ Start workers by `spawn`" in child
    else:
        assert child.split("\n")[0] == "(16, 3000) 9637 fourth"


def test_a_query_made_before_a_fork(made: Made) -> None:
    command = [sys.executable, "-c", READ, made.root, "read", "query"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("a query: tables were read before this process was forked"), done.stdout
