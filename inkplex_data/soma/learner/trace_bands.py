"""Bands of time: each keeps a trace that forgets a fixed share a token, and the slower ones forget less (seeds/001, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class TraceBands:
    """`count` bands; band j takes in alpha_j = base^-j of what it sees and keeps decay_j = 1 - alpha_j of what it has."""

    count: int
    base: float

    @cached_property
    def alpha(self) -> Tensor:
        """float64 [count]."""
        return torch.pow(torch.tensor(self.base, dtype=torch.float64), -torch.arange(self.count))

    @cached_property
    def decay(self) -> Tensor:
        """float64 [count]; 0 in the first band, which holds the last token alone."""
        return 1 - self.alpha

    def kept(self, tokens: Tensor | int) -> Tensor:
        """What is left of a trace after `tokens` more, of any shape: float64 [..., count]. All of it after none."""
        return torch.pow(self.decay, torch.as_tensor(tokens)[..., None])

    def taken(self, tokens: int) -> Tensor:
        """What each of `tokens` tokens weighs in the traces behind the last of them: float64 [tokens, count]."""
        return self.alpha * self.kept(torch.arange(tokens - 1, -1, -1))

    def run(self, start: Tensor, inputs: Tensor, gaps: Tensor) -> Tensor:
        """The traces before each input and behind the last, in closed form: [inputs + 1, count, width].

        They go from one to the next by `kept(gap) * trace + input`. start: [count, width]. inputs: [n, count, width],
        already weighed. gaps: int64 [n], tokens from each input's trace to the next. Differentiable in both.
        """
        times = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(gaps, 0)])
        ages = times[:, None] - times[None, 1:]
        weights = self.kept(ages.clamp_min(0)).masked_fill((ages < 0)[..., None], 0).to(start.dtype)
        past = torch.bmm(weights.permute(2, 0, 1), inputs.transpose(0, 1)).transpose(0, 1)
        return self.kept(times).to(start.dtype)[..., None] * start + past


def bandpass(traces: Tensor) -> Tensor:
    """Differences of neighbouring bands, the slowest band as it is: the same shape, [..., count, width]."""
    return torch.cat([traces[..., :-1, :] - traces[..., 1:, :], traces[..., -1:, :]], dim=-2)
