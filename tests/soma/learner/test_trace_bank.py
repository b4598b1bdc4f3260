"""Closed forms of the trace bank are what ticking token by token gives, in values and in gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inkplex_data.soma.learner.trace_bands import TraceBands, bandpass
from inkplex_data.soma.learner.trace_bank import ProjectedBank, TraceBank, present

VOCABULARY, WIDTH = 40, 7
BANDS = TraceBands(5, 2.0)


def random_tokens(count: int, seed: int) -> Tensor:
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


def filled_bank() -> TraceBank:
    """A bank that retains a past."""
    bank = TraceBank(VOCABULARY, BANDS)
    for token in random_tokens(60, 1).tolist():
        bank.tick(token)
    return bank


def dictionary() -> Tensor:
    made = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return made.requires_grad_()


def test_a_trace_is_what_the_specification_writes() -> None:
    """t = decay * t + alpha * 1[s = i], alpha = base^-j: by hand for three tokens in three bands."""
    bank = TraceBank(3, TraceBands(3, 2.0))
    for token in (0, 1, 0):
        bank.tick(token)
    assert bank.traces.tolist() == [[1, 0.5 + 0.125, 0.25 + 0.140625], [0, 0.25, 0.1875], [0, 0, 0]]
    assert bandpass(bank.traces.T)[:, 0].tolist() == [1 - 0.625, 0.625 - 0.390625, 0.390625]


@pytest.mark.parametrize("count", [1, 7, 300])
def test_block_trace_recurrence_against_literal_sequential_time(count: int) -> None:
    ids, block, literal = random_tokens(count, 3), filled_bank(), filled_bank()
    block.advance(ids)
    for token in ids.tolist():
        literal.tick(token)
    assert torch.allclose(block.traces, literal.traces, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("count", "stride"), [(1, 1), (24, 1), (24, 4), (23, 4), (3, 8), (90, 30)])
def test_block_presents_and_gradients_against_literal_ticking(count: int, stride: int) -> None:
    """To 1e-10, for every observed token, and into the tokens that the bank retained before the block."""
    ids, bank, literal = random_tokens(count, 4), filled_bank(), filled_bank()
    block_dictionary, literal_dictionary = dictionary(), dictionary()
    block = bank.presents(block_dictionary, ids, stride)
    rows = []
    for at, token in enumerate(ids.tolist()):
        if at % stride == 0:
            rows.append(present(literal.traces.T.clone() @ literal_dictionary))
        literal.tick(token)
    ticked = torch.stack(rows)
    assert torch.allclose(block, ticked, rtol=0, atol=1e-10)
    pull = torch.randn(ticked.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    (block * pull).sum().backward()
    (ticked * pull).sum().backward()
    assert torch.allclose(block_dictionary.grad, literal_dictionary.grad, rtol=0, atol=1e-10)
    retained = [token for token in range(VOCABULARY) if token not in ids.tolist()]
    assert (block_dictionary.grad[retained].abs().sum(1) > 0).any()


def test_gradient_reinterpretation_of_retained_token_identity() -> None:
    """A step of the dictionary along a gradient changes what the network sees of tokens that are long past."""
    bank, learned = filled_bank(), dictionary()
    traces, nothing = bank.traces.clone(), torch.zeros(1, dtype=torch.int64)
    before = bank.presents(learned, nothing)
    before.square().sum().backward()
    with torch.no_grad():
        learned -= 0.1 * learned.grad
    after = bank.presents(learned, nothing)
    assert after.square().sum() < before.square().sum()
    assert torch.allclose(after[0], present(traces.T @ learned), rtol=0, atol=1e-12)
    assert torch.equal(bank.traces, traces)


def test_cached_generation_state_recurrence_against_exact_identity_updates() -> None:
    bank, fixed = filled_bank(), dictionary().detach()
    cached = ProjectedBank(bank, fixed)
    said = random_tokens(50, 6)
    literal = filled_bank()
    for token in said.tolist():
        cached.push(token)
        literal.tick(token)
        assert torch.allclose(cached.present(), present(literal.project(fixed)), rtol=0, atol=1e-10)
    bank.advance(said)
    assert torch.allclose(bank.traces, literal.traces, rtol=0, atol=1e-10)


def test_the_bank_holds_a_token_by_its_band_and_forgets() -> None:
    bank = TraceBank(VOCABULARY, BANDS)
    bank.advance(torch.tensor([9]))
    bank.advance(torch.full((1000,), 3))
    assert float(bank.traces.sum(0)[0]) == 1
    assert (bank.traces[9] < 1e-20).all()
    assert torch.allclose(bank.traces.sum(0), torch.ones(5, dtype=torch.float64))
