from __future__ import annotations

import pytest

from inkplex_data.trainer.run.selection import Check, select


def test_least_first_piece_loss_among_those_that_keep_the_voice() -> None:
    checks = [
        Check(10, 3.0, 0.5, 0.5),
        Check(20, 2.0, -0.01, -0.01),
        Check(30, 1.0, -0.0101, 0.5),
        Check(40, 1.0, 0.5, -0.0101),
    ]
    chosen = select(checks)
    assert chosen is not None and chosen.update == 20


def test_each_bound_counts_alone_and_an_unknown_one_does_not_pass() -> None:
    assert select([Check(1, 1.0, None, 1.0), Check(2, 1.0, 1.0, None), Check(3, None, 1.0, 1.0)]) is None


def test_the_earlier_of_equals() -> None:
    chosen = select([Check(2, 1.0, 0.0, 0.0), Check(1, 1.0, 0.0, 0.0)])
    assert chosen is not None and chosen.update == 1


@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_the_margin_is_absolute(margin: float) -> None:
    assert (select([Check(1, 100.0, -0.015, 0.0)], margin_nats=margin) is None) == (margin < 0.015)
