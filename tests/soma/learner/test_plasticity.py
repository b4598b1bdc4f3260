"""Rows turn freely, shrink freely, and grow the less the nearer they are to their ceiling."""

from __future__ import annotations

import pytest
import torch

from inkplex_data.soma.learner.plasticity import INTERVAL, RadialCompressor, ceiling, row_norms, target_norms


@pytest.mark.parametrize(
    ("before", "proposed", "target"),
    [
        (0.0, 0.5, 0.5),  # at the centre all growth passes
        (0.5, 0.7, 0.5 + (1 - 0.5**4) * 0.2),
        (0.5, 0.2, 0.2),  # inward
        (1.0, 1.5, 1.0),  # at capacity none does
        (0.9, 9.0, 1.0),  # the ceiling is an emergency bound
        (2.0, 1.8, 1.0),
    ],
)
def test_target_norms(before: float, proposed: float, target: float) -> None:
    found = target_norms(torch.tensor([[before]]), torch.tensor([[proposed]]), 1.0)
    assert found.item() == pytest.approx(target)


def after_an_interval(begin: torch.Tensor, proposed: torch.Tensor) -> tuple[torch.Tensor, RadialCompressor]:
    matrix = begin.clone()
    compressor = RadialCompressor([matrix])
    for _ in range(INTERVAL - 1):
        compressor.after_update()
    matrix.copy_(proposed)
    compressor.after_update()
    return matrix, compressor


def test_rows_keep_their_proposed_direction_and_growth_is_counted() -> None:
    highest = ceiling(torch.empty(1, 100))
    assert highest == pytest.approx(4)
    begin, proposed = torch.zeros(3, 100), torch.zeros(3, 100)
    begin[:, 0] = torch.tensor([2.0, 4.0, 3.0])
    proposed[0, 0], proposed[1, 1], proposed[2, 0] = (
        3.0,
        5.0,
        1.0,
    )  # grows; at capacity turns and grows; shrinks
    matrix, compressor = after_an_interval(begin, proposed)
    assert torch.allclose(row_norms(matrix)[:, 0], torch.tensor([2 + (1 - 0.5**4), 4.0, 1.0]), atol=1e-5)
    assert float(matrix[1, 1]) == pytest.approx(4)
    assert float(matrix[1, 0]) == 0
    assert compressor.compression == pytest.approx((0.5**4 + 1) / 2)
    assert torch.equal(compressor.norms[0], torch.tensor([[2 + (1 - 0.5**4)], [4.0], [1.0]]))


def test_between_intervals_and_without_growth_nothing_is_compressed() -> None:
    matrix = torch.ones(2, 4)
    compressor = RadialCompressor([matrix])
    matrix *= 100
    compressor.after_update()
    assert float(matrix[0, 0]) == 100
    _, still = after_an_interval(torch.zeros(1, 4), torch.zeros(1, 4))
    assert still.compression == 0
