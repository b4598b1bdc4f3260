"""A verb in a process of its own that is killed: after some of its file operations, or after some seconds.

`python -m tests.outputs.kills COUNT ARGUMENT…` runs `inkplex-data ARGUMENT…` and kills itself before the file operation
COUNT; with COUNT 0 it prints on standard error how many there were. `KILL_BELOW` names the folder whose files count.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ROOT

COUNTED = "file operations: "
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.chmod")


def killed_before(count: int, below: str) -> None:
    """Kill this process before the `count`-th operation that changes something under `below`; 0 only counts."""
    done = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        if event == "open":
            changes = bool(int(str(arguments[2] or 0)) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        else:
            changes = event in CHANGES
        changed = arguments[1] if event == "os.link" else arguments[0]
        if changes and str(changed).startswith(below):
            done += 1
            if done == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    if count == 0:
        import atexit

        atexit.register(lambda: print(f"{COUNTED}{done}", file=sys.stderr))


def command(count: int, arguments: Sequence[object], below: Path) -> tuple[list[str], dict[str, str]]:
    """Command line and environment."""
    line = [sys.executable, "-m", "tests.outputs.kills", str(count), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KILL_BELOW": str(below), "HF_HUB_OFFLINE": "1"}
    return line, environment


def finished(arguments: Sequence[object], below: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """The command without a kill, and the number of its file operations."""
    line, environment = command(0, arguments, below)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, cwd=below)
    counts = [row for row in done.stderr.splitlines() if row.startswith(COUNTED)]
    return done, int(counts[-1].removeprefix(COUNTED)) if counts else 0


def killed(
    arguments: Sequence[object], below: Path, *, count: int = -1, after_s: float | None = None
) -> None:
    """Run the command, kill it, and wait. Raises AssertionError where a process of it still lives two seconds later."""
    line, environment = command(count, arguments, below)
    process = subprocess.Popen(
        line,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=below,
        start_new_session=True,
    )
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 2
    while (left := in_session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes {left} live on"


def in_session(session: int) -> list[int]:
    """Processes of a session that are no zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, own = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(own) == session and state != "Z":
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    killed_before(int(sys.argv[1]), os.environ["KILL_BELOW"])
    from inkplex_data.cli.app import main

    main(sys.argv[2:])
