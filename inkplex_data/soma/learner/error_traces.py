"""Translated residuals over time: where in the dictionary's space, and in which band, prediction errs (seeds/001, section 7)."""

from __future__ import annotations

import torch
from torch import Tensor

from inkplex_data.soma.learner.soma_network import WIDTH
from inkplex_data.soma.learner.trace_bands import TraceBands, bandpass


@torch.no_grad()
def translated_residual(dictionary: Tensor, targets: Tensor, probabilities: Tensor) -> Tensor:
    """dictionary^T (one_hot(target) - p), in units of the mean norm of the dictionary: float64 [n, width].

    dictionary: [vocabulary, width]. targets: int64 [n]. probabilities: [n, vocabulary].
    """
    residual = dictionary[targets] - probabilities @ dictionary
    return residual.double() / torch.linalg.vector_norm(dictionary, dim=1).mean().clamp_min(1e-12).double()


class ErrorTraces:
    """The trace bank of residuals. traces: float64 [bands, width].

    A residual stands for all tokens since the one before it: after a gap of g tokens a trace keeps decay^g of itself and
    takes in the rest, as g equal residuals would have it.
    """

    def __init__(self, bands: TraceBands) -> None:
        self.bands = bands
        self.traces = torch.zeros(bands.count, WIDTH, dtype=torch.float64)

    def observe(self, residuals: Tensor, gaps: Tensor, observed: Tensor) -> Tensor:
        """Take in residuals; where `observed` is false nothing was, and the traces decay.

        residuals: float64 [n, width]. gaps: int64 [n], tokens since the residual before. observed: bool [n].
        Returns the power of each band after each observed residual, on the average: float64 [bands], 0 where there is none.
        """
        weights = (1 - self.bands.kept(gaps)) * observed[:, None]
        states = self.bands.run(self.traces, weights[..., None] * residuals[:, None, :], gaps)[1:]
        if len(states):
            self.traces = states[-1].clone(memory_format=torch.contiguous_format)
        powers = bandpass(states).square().sum(-1)[observed]
        return powers.mean(0) if len(powers) else torch.zeros(self.bands.count, dtype=torch.float64)

    def pass_by(self, tokens: int) -> None:
        """Time that goes by without a residual: generation, and what is only perceived."""
        self.traces = self.bands.kept(tokens)[:, None] * self.traces

    def spectrum(self) -> Tensor:
        """The norm of each band as it stands: float64 [bands]."""
        return torch.linalg.vector_norm(bandpass(self.traces), dim=1)
