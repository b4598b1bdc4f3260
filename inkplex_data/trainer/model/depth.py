"""The depth transformer: inside one frame, six causal blocks over the codebook positions q0 … q15.

Attention and feed-forward weights differ for every position; the two norms of a block are shared. There are
no positional embeddings and no norm after the last block (seeds/000, section 4).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inkplex_data.trainer.model.cache import KVRing, RingKind
from inkplex_data.trainer.model.layers import Gating, Linear, LowRank, RMSNorm, project


class DepthAttention(nn.Module):
    """Self-attention whose packed weights hold one slice per position: `in_proj_weight` [P·3W, W] and
    `out_proj.weight` [P·W, W]."""

    in_proj_lora: LowRank | None

    def __init__(self, width: int, heads: int, positions: int) -> None:
        super().__init__()
        self.heads, self.positions = heads, positions
        self.in_proj_weight = nn.Parameter(torch.empty(positions * 3 * width, width))
        nn.init.uniform_(self.in_proj_weight, -(width**-0.5), width**-0.5)
        self.register_module("in_proj_lora", None)
        self.out_proj = Linear(width, positions * width)

    def _slices(self, weight: Tensor) -> Tensor:
        return weight.view(self.positions, -1, weight.shape[-1])

    def _project(self, x: Tensor, weight: Tensor, lora: LowRank | None) -> Tensor:
        """x [N, P, W], each position through its own slice: [N, P, rows of a slice]."""
        rows = x.transpose(0, 1)
        out = torch.bmm(rows, self._slices(weight).to(x.dtype).transpose(1, 2))
        return (out if lora is None else out + lora.packed(rows)).transpose(0, 1)

    def _split(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, t, 3W] to three of [N, H, t, head width]."""
        N, t, _ = packed.shape
        query, key, value = packed.reshape(N, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return query, key, value

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, P, W], all positions of N frames."""
        query, key, value = self._split(self._project(x, self.in_proj_weight, self.in_proj_lora))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = out.transpose(1, 2).flatten(-2)
        return self._project(joined, self.out_proj.weight, self.out_proj.lora)

    def step(self, x: Tensor, position: int, ring: KVRing) -> Tensor:
        """x: [N, 1, W], position `position` of N frames."""
        weight = self._slices(self.in_proj_weight)[position]
        query, key, value = self._split(project(x, weight, self.in_proj_lora, position))
        key, value, mask = ring.extend(key, value)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        weight = self._slices(self.out_proj.weight)[position]
        return project(out.transpose(1, 2).flatten(-2), weight, self.out_proj.lora, position)


class DepthBlock(nn.Module):
    """Attention and feed-forward of one block, with residuals; weights by position."""

    def __init__(self, width: int, heads: int, positions: int, hidden: int) -> None:
        super().__init__()
        self.self_attn = DepthAttention(width, heads, positions)
        self.norm1 = RMSNorm(width)
        self.norm2 = RMSNorm(width)
        self.gating = nn.ModuleList(Gating(width, hidden) for _ in range(positions))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.norm1(x))
        normed = self.norm2(x)
        return x + torch.stack([gate(normed[:, q]) for q, gate in enumerate(self.gating)], dim=1)

    def step(self, x: Tensor, position: int, ring: KVRing) -> Tensor:
        x = x + self.self_attn.step(self.norm1(x), position, ring)
        return x + self.gating[position](self.norm2(x))


class DepthTransformer(nn.Module):
    """All blocks. `forward` takes whole frames (training), `step` one position (generation)."""

    def __init__(self, width: int, heads: int, layers: int, positions: int, hidden: int) -> None:
        super().__init__()
        self.width, self.heads, self.positions = width, heads, positions
        self.layers = nn.ModuleList(DepthBlock(width, heads, positions, hidden) for _ in range(layers))

    def rings(self, batch: int, kind: RingKind) -> list[KVRing]:
        """Caches for one frame at a time; reset them before each frame."""
        weight = cast(DepthBlock, self.layers[0]).self_attn.in_proj_weight
        return [KVRing(batch, self.heads, self.positions, kind, weight=weight.detach()) for _ in self.layers]

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, P, W]; returns [N, P, W]."""
        for block in self.layers:
            x = block(x)
        return x

    def step(self, x: Tensor, position: int, rings: list[KVRing]) -> Tensor:
        """x: [N, 1, W] at `position`, which must follow the last one given; returns [N, 1, W]."""
        for block, ring in zip(self.layers, rings, strict=True):
            x = cast(DepthBlock, block).step(x, position, ring)
        return x
