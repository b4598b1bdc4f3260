"""The working folder: results appear whole, and only with the stamp they were made under."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from inkplex_data.errors import StoreError
from inkplex_data.pipeline import ledger as ledger_module
from inkplex_data.pipeline.ledger import Ledger


def test_a_result_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with ledger.result("calls", "a/../b", "one") as made:
        (made.folder / "codes").write_text("1")
    assert ledger.done("calls", "a/../b", "two") is None
    found = ledger.done("calls", "a/../b", "one")
    assert found is not None
    assert found.resolve().is_relative_to(tmp_path.resolve())
    with pytest.raises(ZeroDivisionError), ledger.result("calls", "a/../b", "two") as made:
        (made.folder / "codes").write_text("2")
        1 / 0  # noqa: B018
    assert (found / "codes").read_text() == "1"
    assert [path.name for path in found.parent.iterdir()] == [found.name]


def test_two_builds_cannot_hold_one_store(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path).locked(),
        pytest.raises(StoreError, match="another build"),
        Ledger(tmp_path).locked(),
    ):
        pass
    with Ledger(tmp_path).locked():
        pass


@pytest.mark.parametrize("damage", [b"", b"1" * 7, b"x" * 8])
def test_what_a_power_cut_left_of_a_result_is_made_again(tmp_path: Path, damage: bytes) -> None:
    ledger = Ledger(tmp_path)
    with ledger.result("calls", "a", "one") as made:
        (made.folder / "codes").write_bytes(b"1" * 8)
    folder = ledger.folder("calls", "a")
    (folder / "codes").write_bytes(damage)
    # Its bytes are read once a process; a build after a power cut is another one.
    ledger_module._CHECKED.clear()
    assert ledger.done("calls", "a", "one") is None
    (folder / "codes").write_bytes(b"1" * 8)
    assert ledger.done("calls", "a", "one") == folder
    (folder / "stamp.json").write_bytes(b"")
    assert ledger.done("calls", "a", "one") is None


def test_the_lock_is_held_until_the_folder_is_gone_and_what_dead_builds_made_goes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    half = tmp_path / ".build" / "scan" / "0123.77.tmp"
    half.mkdir(parents=True)
    with ledger.locked():
        assert not half.exists()
        waiting = (tmp_path / ".build" / "lock").open("ab")  # of a build that looks just now
        ledger.remove()
        assert not (tmp_path / ".build").exists()
    with Ledger(tmp_path).locked():
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it has a lock on nothing
        with pytest.raises(StoreError, match="another build"), Ledger(tmp_path).locked():
            pass
    waiting.close()
