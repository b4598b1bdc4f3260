"""Sizes, the activation budget, and what is tied."""

from __future__ import annotations

import math

import pytest
import torch

from inkplex_data.errors import ConfigError
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.learner.soma_network import WIDTH, SomaNetwork, budget_relu
from inkplex_data.soma.tokens.soma_tokenizer import VOCABULARY


def network(bands: int, hidden: int, depth: int) -> SomaNetwork:
    made = SomaNetwork(50, bands, hidden, depth)
    made.begin(torch.Generator().manual_seed(0))
    return made


def test_the_default_model_has_70_3_million_parameters() -> None:
    config = SomaConfig()
    assert (config.bands, config.width, config.depth) == (16, 4096, 4)
    with torch.device("meta"):
        made = SomaNetwork(VOCABULARY, config.bands, config.width, config.depth)
    h = 4096
    counted = sum(value.numel() for value in made.parameters())
    assert counted == 8192 * 256 + (256 * 16) * h + 3 * h * h + h * 256 + 8192 + 3
    assert round(counted / 1e6, 1) == 70.3


def test_all_activation_is_spent_whatever_the_input() -> None:
    values = torch.tensor([[3.0, -1, 1, 0], [0.3, -9, 0.1, 0], [-1, -2, -3, -4]])
    assert torch.allclose(budget_relu(values).sum(1), torch.tensor([0.4, 0.4, 0]), atol=1e-5)
    assert torch.allclose(budget_relu(values)[0], budget_relu(values)[1], atol=1e-5)
    assert torch.allclose(budget_relu(values)[0], torch.tensor([0.3, 0, 0.1, 0]), atol=1e-5)


def test_forward_is_what_the_specification_writes() -> None:
    made = network(bands=2, hidden=30, depth=3)
    x = torch.randn(4, 2 * WIDTH)
    hidden = budget_relu(x @ made.input.weight.T)
    for logit, map_ in zip(made.residual_logits, made.residual, strict=True):
        assert torch.sigmoid(logit).item() == pytest.approx(0.1)
        hidden = budget_relu(hidden + torch.sigmoid(logit) * (hidden @ map_.weight.T))
    logits = hidden @ made.language.weight.T @ made.dictionary.T + made.token_bias
    assert torch.allclose(made(x), logits, atol=1e-5)


def test_depth_one_has_no_residual_block() -> None:
    made = network(bands=1, hidden=256, depth=1)
    assert [len(group) for group in made.groups()] == [2, 1, 2]
    assert made(torch.zeros(1, WIDTH)).tolist() == [[0.0] * 50]


def test_the_groups_are_all_parameters() -> None:
    made = network(bands=2, hidden=20, depth=3)
    grouped = [id(value) for group in made.groups() for value in group]
    assert sorted(grouped) == sorted(id(value) for value in made.parameters())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bands": 0}, "bands is 0"),
        ({"depth": 10**9}, "depth"),
        ({"base": math.nan}, "base is nan"),
        ({"batch": 0}, "batch"),
    ],
)
def test_sizes_that_make_no_model_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SomaConfig(**wrong)
