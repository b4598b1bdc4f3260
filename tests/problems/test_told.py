"""Long lists are cut to some of every kind, and the rest is counted."""

from __future__ import annotations

from inkplex_data.problems.told import MOST_LINES, told


def test_a_short_list_is_whole() -> None:
    lines = [("a", str(number)) for number in range(MOST_LINES)]
    assert told(lines, everything="see x") == [str(number) for number in range(MOST_LINES)]


def test_a_long_list_keeps_some_of_every_kind_in_order_and_counts_the_rest() -> None:
    lines = [("a", f"a{number}") for number in range(2990)] + [("b", f"b{number}") for number in range(10)]
    shown = told(lines, everything="all are in x")
    assert len(shown) == MOST_LINES + 1
    assert shown[:-1] == [f"a{number}" for number in range(10)] + [f"b{number}" for number in range(10)]
    assert shown[-1] == "and 2,980 more (a 2,980); all are in x"
    many = told([(f"kind{number}", "x") for number in range(50)], everything="y")
    assert len(many) == MOST_LINES + 1 and many[-1].startswith("and 30 more (kind20 1, ")
