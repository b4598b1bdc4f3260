"""The working folder: results appear whole, and only with the stamp they were made under."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.errors import StoreError
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
