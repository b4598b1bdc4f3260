"""The learned path from the present of the trace bank to the next token (seeds/001, section 4)."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

WIDTH = 256
"""Of a token in the dictionary, and of the language that is read out against it."""

BUDGET = 0.1
"""Mean activation of a hidden coordinate."""

FIRST_GATE = 0.1
_EPSILON = 1e-6


def budget_relu(values: Tensor) -> Tensor:
    """Positive parts, scaled to a sum of 0.1 a coordinate over the last axis: what is fixed is how much, not where."""
    positive = values.relu()
    return positive * (BUDGET * values.shape[-1] / (positive.sum(-1, keepdim=True) + _EPSILON))


class SomaNetwork(nn.Module):
    """Parameters, all float32: dictionary [vocabulary, 256], input [hidden, 256 * bands], depth - 1 residual maps
    [hidden, hidden] with a gate each, language [256, hidden], token_bias [vocabulary]."""

    def __init__(self, vocabulary: int, bands: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.dictionary = nn.Parameter(torch.empty(vocabulary, WIDTH))
        self.input = nn.Linear(WIDTH * bands, hidden, bias=False)
        self.residual = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(depth - 1))
        self.residual_logits = nn.Parameter(torch.empty(depth - 1))
        self.language = nn.Linear(hidden, WIDTH, bias=False)
        self.token_bias = nn.Parameter(torch.empty(vocabulary))

    @torch.no_grad()
    def begin(self, generator: torch.Generator) -> None:
        """Fresh weights. Every row of a map begins with the same expected norm of one, far below its ceiling."""
        for matrix in self.matrices():
            matrix.normal_(0, 1 / math.sqrt(matrix.shape[1]), generator=generator)
        self.residual_logits.fill_(math.log(FIRST_GATE / (1 - FIRST_GATE)))
        self.token_bias.zero_()

    def matrices(self) -> list[Tensor]:
        """What plasticity acts on row by row: the dictionary and every map."""
        return [self.dictionary, self.input.weight, *self._residual_weights(), self.language.weight]

    def groups(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Parameters from the earliest to the last of the path: (dictionary and input, residual blocks, readout)."""
        residual = [*self._residual_weights(), self.residual_logits]
        return [self.dictionary, self.input.weight], residual, [self.language.weight, self.token_bias]

    def _residual_weights(self) -> list[Tensor]:
        return [cast(nn.Linear, map_).weight for map_ in self.residual]

    def forward(self, present: Tensor) -> Tensor:
        """Logits [n, vocabulary] of presents [n, 256 * bands]."""
        hidden = budget_relu(self.input(present))
        for gate, map_ in zip(torch.sigmoid(self.residual_logits), self.residual, strict=True):
            hidden = budget_relu(hidden + gate * map_(hidden))
        return nn.functional.linear(self.language(hidden), self.dictionary, self.token_bias)
