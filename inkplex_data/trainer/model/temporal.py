"""The temporal transformer: 32 pre-norm blocks over frames, rotary positions, a bounded causal context.

Parameter names and shapes are those of the released safetensors (seeds/000, sections 3 and 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from inkplex_data.trainer.model.cache import KVRing, RingKind
from inkplex_data.trainer.model.layers import (
    Gating,
    Linear,
    LowRank,
    RMSNorm,
    at_least_float32,
    project,
    rotary_angles,
    rotate,
)

BlockHook = Callable[[Tensor, int], Tensor]
"""`hook(block_output [B, T, W], first_step) -> [B, T, W]`: what goes on to the next block. Row i belongs to
step first_step + i; training calls it once with first_step 0, generation with the step it is at."""


class TemporalAttention(nn.Module):
    """Causal multi-head self-attention with one packed projection `in_proj_weight` [3W, W] (Q, K, V)."""

    in_proj_lora: LowRank | None

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads, self.context = heads, context
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        nn.init.uniform_(self.in_proj_weight, -(width**-0.5), width**-0.5)
        self.register_module("in_proj_lora", None)
        self.out_proj = Linear(width, width)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor | None, ring: KVRing | None) -> Tensor:
        """x: [B, T, W]; angles: [T, head width / 2]; mask: bool [T, T] where T exceeds the context."""
        B, T, _ = x.shape
        packed = project(x, self.in_proj_weight, self.in_proj_lora).view(B, T, 3, self.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        query, key = rotate(query, angles), rotate(key, angles)
        causal = False
        if ring is not None:
            key, value, mask = ring.extend(key, value)
        else:
            causal = mask is None
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.out_proj(out.transpose(1, 2).flatten(-2))


class TemporalBlock(nn.Module):
    """x + attention(norm1(x)), then that + feed-forward(norm2(that))."""

    def __init__(self, width: int, heads: int, context: int, hidden: int) -> None:
        super().__init__()
        self.self_attn = TemporalAttention(width, heads, context)
        self.norm1 = RMSNorm(width)
        self.norm2 = RMSNorm(width)
        self.gating = Gating(width, hidden)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor | None, ring: KVRing | None) -> Tensor:
        x = x + self.self_attn(self.norm1(x), angles, mask, ring)
        return x + self.gating(self.norm2(x))


class TemporalTransformer(nn.Module):
    """The blocks in order; `after_block` may replace the output of any of them."""

    def __init__(self, width: int, heads: int, layers: int, context: int, hidden: int) -> None:
        super().__init__()
        self.width, self.heads, self.context = width, heads, context
        self.layers = nn.ModuleList(TemporalBlock(width, heads, context, hidden) for _ in range(layers))

    def rings(self, batch: int, kind: RingKind) -> list[KVRing]:
        """Empty streaming caches, one a block, in the type and on the device of the weights."""
        weight = cast(TemporalBlock, self.layers[0]).self_attn.in_proj_weight
        return [KVRing(batch, self.heads, self.context, kind, weight=weight.detach()) for _ in self.layers]

    def forward(
        self,
        x: Tensor,
        *,
        rings: list[KVRing] | None = None,
        after_block: Mapping[int, BlockHook] | None = None,
        recompute: bool = False,
    ) -> Tensor:
        """x: [B, T, W], the next T steps (from 0 without rings); returns the last block's output [B, T, W].

        after_block: by zero-based block. recompute: keep only block inputs for backward.
        Raises IndexError for a hook after a block that does not exist.
        """
        hooks = dict(after_block or {})
        if unknown := sorted(set(hooks) - set(range(len(self.layers)))):
            raise IndexError(f"there is no temporal block {unknown[0]}: the model has {len(self.layers)}")
        steps, first = x.shape[1], rings[0].end if rings else 0
        angles = rotary_angles(first, steps, self.width // self.heads, x.device, at_least_float32(x.dtype))
        mask = self._context_mask(steps, x.device) if rings is None else None
        for index, block in enumerate(self.layers):
            ring = rings[index] if rings else None
            # Blocks before the first hook need no gradient when the model is frozen, so nothing is kept there.
            if recompute and torch.is_grad_enabled() and ring is None:
                x = cast(Tensor, checkpoint(block, x, angles, mask, None, use_reentrant=False))
            else:
                x = block(x, angles, mask, ring)
            if index in hooks:
                x = hooks[index](x, first)
        return x

    def _context_mask(self, steps: int, device: torch.device) -> Tensor | None:
        """Keys with 0 ≤ query − key < context; None where plain causality says the same."""
        if steps <= self.context:
            return None
        age = torch.arange(steps, device=device)[:, None] - torch.arange(steps, device=device)[None]
        return (age >= 0) & (age < self.context)
