"""Parts that the temporal and the depth transformer share: norm, projection, gated feed-forward, embedding, rotation.

A parameter that trains may be wider than the model computes: norms widen, projections narrow their weights to the
type of their input, and embeddings narrow what they look up. So float32 masters need no copies of their own.
"""

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


class LowRank(nn.Module):
    """What LoRA adds to a frozen projection: scaling · B A x (arXiv:2106.09685).

    A packed weight [P·out, in] holds P projections, and each has its own pair: A [P, rank, in], B [P, out, rank],
    float32 whatever the weight is, computed in the type of the input. B starts at zero, so a new one adds zero.
    """

    def __init__(self, weight: Tensor, *, rank: int, scaling: float, parts: int = 1) -> None:
        super().__init__()
        rows, width = weight.shape
        self.rank, self.scaling = rank, scaling
        # Drawn where the random state is the CPU's, so that a run begins alike on every device.
        place = "meta" if weight.is_meta else "cpu"
        first = torch.empty(parts, rank, width, device=place).uniform_(-(width**-0.5), width**-0.5)
        self.A = nn.Parameter(first.to(weight.device))
        self.B = nn.Parameter(torch.zeros(parts, rows // parts, rank, device=weight.device))

    def forward(self, x: Tensor, part: int = 0) -> Tensor:
        """What projection `part` adds: [..., in] to [..., out]."""
        inner = F.linear(x, self.A[part].to(x.dtype))
        return F.linear(inner, self.B[part].to(x.dtype)) * self.scaling

    def packed(self, x: Tensor) -> Tensor:
        """What every projection adds to its own input: [P, N, in] to [P, N, out]."""
        inner = torch.bmm(x, self.A.to(x.dtype).transpose(1, 2))
        return torch.bmm(inner, self.B.to(x.dtype).transpose(1, 2)) * self.scaling

    def delta(self) -> Tensor:
        """The same as a change of the weight, float32 [P·out, in]."""
        return (torch.bmm(self.B.float(), self.A.float()) * self.scaling).flatten(0, 1)


def project(x: Tensor, weight: Tensor, lora: LowRank | None, part: int = 0) -> Tensor:
    """x [..., in] through `weight` [out, in] and what is added to it, in the type of x: [..., out]."""
    out = F.linear(x, weight.to(x.dtype))
    return out if lora is None else out + lora(x, part)


class Linear(nn.Linear):
    """A projection without bias, computed in the type of its input; `lora` may be attached to it."""

    lora: LowRank | None

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out, bias=False)
        self.register_module("lora", None)

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width] to [..., out]."""
        return project(x, self.weight, self.lora)


class Gating(nn.Module):
    """SiLU-gated feed-forward: the first half of `linear_in` gates the second. No bias, no dropout."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.linear_in = Linear(width, 2 * hidden)
        self.linear_out = Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.linear_in(x).chunk(2, dim=-1)
        return self.linear_out(F.silu(gate) * value)


class CodeEmbedding(nn.Embedding):
    """An embedding in which the id −1 (no input) gives an exact zero vector.

    output_dtype: the type of its vectors, that of the table by default.
    """

    output_dtype: torch.dtype | None = None

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 of any shape, −1 or 0 … rows − 1; returns ids.shape + [width]."""
        vectors = super().forward(ids.clamp(min=0))
        if self.output_dtype is not None:
            vectors = vectors.to(self.output_dtype)
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
