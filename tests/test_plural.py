"""Counts with their noun."""

from __future__ import annotations

from inkplex_data.plural import counted


def test_only_one_is_singular() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1_000)] == [
        "0 calls",
        "1 call",
        "2 calls",
        "1,000 calls",
    ]
