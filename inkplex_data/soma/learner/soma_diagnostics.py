"""What goes on inside soma: spectra of what it sees and of its errors, what it still holds, and what it expects (seeds/001, section 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_network import WIDTH
from inkplex_data.soma.learner.trace_bands import bandpass
from inkplex_data.soma.learner.trace_bank import present

SHOWN = 12
"""Tokens of a list."""


@dataclass(frozen=True)
class Diagnostics:
    """Lists of one number a band, the fastest first, and lists of tokens, the strongest first.

    input_spectrum: norms of the bandpassed present. weights_by_band: shares of the first map's squared weights.
    residual_spectrum: norms of the bandpassed error traces. active: (token, its trace summed over the bands, the band that
    holds most of it). likely: (token, probability) of what comes next.
    """

    input_spectrum: list[float]
    weights_by_band: list[float]
    residual_spectrum: list[float]
    dominant_band: int
    energy: float
    plasticity: float
    active: list[tuple[int, float, int]]
    likely: list[tuple[int, float]]


@torch.no_grad()
def diagnose(learner: Learner) -> Diagnostics:
    """As the model stands, before the next token."""
    network, bank = learner.network, learner.bank
    projected = bank.project(network.dictionary)
    weights = network.input.weight.view(-1, learner.config.bands, WIDTH).square().sum((0, 2))
    masses = bank.traces.sum(1)
    active = [token for token in _strongest(masses) if float(masses[token]) > 0]
    chances = torch.softmax(network(present(projected)[None])[0], 0)
    return Diagnostics(
        input_spectrum=torch.linalg.vector_norm(bandpass(projected), dim=1).tolist(),
        weights_by_band=(weights / weights.sum()).tolist(),
        residual_spectrum=learner.errors.spectrum().tolist(),
        dominant_band=learner.io2.dominant_band,
        energy=learner.io2.energy,
        plasticity=learner.io2.plasticity,
        active=[(token, float(masses[token]), int(bank.traces[token].argmax())) for token in active],
        likely=[(token, float(chances[token])) for token in _strongest(chances)],
    )


def _strongest(values: Tensor) -> list[int]:
    return [int(token) for token in values.topk(SHOWN).indices]
