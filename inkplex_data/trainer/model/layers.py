"""Parts that the temporal and the depth transformer share: norm, gated feed-forward, embedding, rotation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inkplex_data.grid import NO_INPUT

RMS_EPSILON = 1e-8
ROTARY_PERIOD = 10_000.0


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The type in which norms, rotations and losses are computed: float32, or wider if the input is."""
    return torch.promote_types(dtype, torch.float32)


class RMSNorm(nn.Module):
    """RMS normalisation in float32 with a learned scale `alpha` [1, 1, width], cast back to the input's
    type (seeds/000, "One of the 32 temporal blocks": epsilon 1e-8, no mean subtraction)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """x: [B, T, width]; returns the same shape and dtype."""
        wide = x.to(at_least_float32(x.dtype))
        inverse = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + RMS_EPSILON)
        return (wide * (self.alpha.to(wide.dtype) * inverse)).to(x.dtype)


class Gating(nn.Module):
    """SiLU-gated feed-forward: the first half of `linear_in` gates the second. No bias, no dropout."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.linear_in = nn.Linear(width, 2 * hidden, bias=False)
        self.linear_out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.linear_in(x).chunk(2, dim=-1)
        return self.linear_out(F.silu(gate) * value)


class CodeEmbedding(nn.Embedding):
    """An embedding in which the id −1 (no input) gives an exact zero vector."""

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 of any shape, −1 or 0 … rows − 1; returns ids.shape + [width]."""
        vectors = super().forward(ids.clamp(min=0))
        return torch.where((ids == NO_INPUT).unsqueeze(-1), torch.zeros_like(vectors), vectors)


def rotary_angles(first: int, steps: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Angles of positions first … first + steps − 1 for a head of `width` coordinates: [steps, width / 2].

    Adjacent coordinates form a pair; pair j turns by position × exp(−log(10000) × 2j / width).
    """
    pairs = torch.arange(width // 2, device=device, dtype=dtype)
    frequencies = torch.exp(pairs * (-math.log(ROTARY_PERIOD) * 2 / width))
    return torch.arange(first, first + steps, device=device, dtype=dtype)[:, None] * frequencies


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn adjacent coordinate pairs of x [B, H, T, width] by angles [T, width / 2]; same shape and dtype."""
    pairs = x.to(angles.dtype).reshape(*x.shape[:-1], -1, 2)
    real, imaginary = pairs.unbind(dim=-1)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack([real * cos - imaginary * sin, real * sin + imaginary * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)
