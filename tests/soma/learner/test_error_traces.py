"""Residuals in the space of the dictionary, and their traces across gaps."""

from __future__ import annotations

import torch

from inkplex_data.soma.learner.error_traces import ErrorTraces, translated_residual
from inkplex_data.soma.learner.soma_network import WIDTH
from inkplex_data.soma.learner.trace_bands import TraceBands

BANDS = TraceBands(6, 2.0)


def residuals(count: int) -> torch.Tensor:
    return torch.randn(count, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_a_residual_is_the_target_less_what_was_expected() -> None:
    dictionary = torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(2))
    targets, chances = torch.tensor([4, 0]), torch.softmax(torch.randn(2, 9), 1)
    expected = torch.stack([dictionary[target] for target in targets])
    expected = expected - torch.stack(
        [sum(p * e for p, e in zip(row, dictionary, strict=True)) for row in chances]
    )
    found = translated_residual(dictionary, targets, chances)
    assert torch.allclose(found, (expected / dictionary.norm(dim=1).mean()).double(), atol=1e-5)
    certain = torch.nn.functional.one_hot(targets, 9).float()
    assert float(translated_residual(dictionary, targets, certain).abs().max()) < 1e-6


def test_gap_aware_residual_recurrence_against_repeated_elapsed_time() -> None:
    """A residual after a gap of g tokens is g equal residuals, one a token."""
    gaps, seen = torch.tensor([1, 4, 4, 1, 256]), residuals(5)
    at_once, literal = ErrorTraces(BANDS), torch.zeros(6, WIDTH, dtype=torch.float64)
    at_once.observe(seen, gaps, torch.ones(5, dtype=torch.bool))
    for residual, gap in zip(seen, gaps.tolist(), strict=True):
        for _ in range(gap):
            literal = BANDS.decay[:, None] * literal + BANDS.alpha[:, None] * residual
    assert torch.allclose(at_once.traces, literal, rtol=0, atol=1e-10)


def test_blocks_may_be_cut_anywhere() -> None:
    seen, gaps, every = residuals(20), torch.full((20,), 3), torch.ones(20, dtype=torch.bool)
    whole, parts = ErrorTraces(BANDS), ErrorTraces(BANDS)
    power = whole.observe(seen, gaps, every)
    first = parts.observe(seen[:13], gaps[:13], every[:13])
    second = parts.observe(seen[13:], gaps[13:], every[13:])
    assert torch.allclose(whole.traces, parts.traces, rtol=0, atol=1e-12)
    assert torch.allclose(power, (13 * first + 7 * second) / 20, rtol=0, atol=1e-12)


def test_what_is_masked_decays_and_has_no_power() -> None:
    traces, seen = ErrorTraces(BANDS), residuals(3)
    gaps, observed = torch.tensor([1, 2, 5]), torch.tensor([True, False, False])
    power = traces.observe(seen, gaps, observed)
    alone = ErrorTraces(BANDS)
    assert torch.allclose(power, alone.observe(seen[:1], gaps[:1], observed[:1]))
    alone.pass_by(7)
    assert torch.allclose(traces.traces, alone.traces, rtol=0, atol=1e-14)
    nothing = traces.observe(seen[:2], gaps[:2], torch.tensor([False, False]))
    assert nothing.tolist() == [0] * 6
