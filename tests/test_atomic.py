"""A file is there whole or not at all, and what dead writers left goes with the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inkplex_data.atomic import replacing, write_json


def dead_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_next_writer_removes_what_dead_ones_left_and_nothing_else(tmp_path: Path) -> None:
    dead = tmp_path / f".out [1].json.{dead_process()}.tmp"
    living = tmp_path / f".out [1].json.{os.getppid()}.tmp"
    others = [tmp_path / ".other.json.1.tmp", tmp_path / ".out [1].json.mine.tmp", living]
    for path in (dead, *others):
        path.write_text("half")
    write_json(tmp_path / "out [1].json", 1)
    assert not dead.exists()
    assert all(path.exists() for path in others)
    assert (tmp_path / "out [1].json").read_text() == "1"


def test_a_file_that_somebody_holds_is_left_to_them(tmp_path: Path) -> None:
    """On a shared disk another machine's process has a number that runs nowhere here."""
    held = tmp_path / f".out.json.{dead_process()}.tmp"
    import fcntl

    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_json(tmp_path / "out.json", 1)
        assert held.exists()
    write_json(tmp_path / "out.json", 2)
    assert not held.exists()


def test_nothing_is_left_of_a_block_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "out") as file:
        file.write(b"half")
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []
