"""Attention of steps over memory versions, each visible during its half-open interval of steps.

No mask over all versions is ever made: callers pass the versions of one chunk, and within a chunk queries go
in groups, so that no mask outgrows `MASK_ELEMENTS`. On a GPU the interval mask is a FlexAttention block mask
and no mask is materialised at all.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F

AttentionBackend = Literal["auto", "flex", "sdpa"]

MASK_ELEMENTS = 2**25
"""Entries of a step × version mask made at once (32 MiB as bool)."""

FLEX_HEAD_WIDTHS = (16, 32, 64, 128, 256)
BLOCK = 128


@dataclass(frozen=True)
class Intervals:
    """When each version is visible, seen from the first step of some consecutive steps.

    start, end: int64 [V] with start < end, half-open. first: the step of the first query.
    """

    start: Tensor
    end: Tensor
    first: int

    def mask(self, at: int, steps: int) -> Tensor:
        """Bool [steps, V]: whether query at + i sees version v.

        Steps 1, 2 and 3 over a version that is visible before step 3 and one that comes at step 2:

        >>> Intervals(torch.tensor([0, 2]), torch.tensor([3, 4]), first=1).mask(0, 3).int().tolist()
        [[1, 0], [1, 1], [0, 1]]
        """
        step = torch.arange(self.first + at, self.first + at + steps, device=self.start.device)[:, None]
        return (self.start[None] <= step) & (step < self.end[None])

    def seen(self, steps: int) -> Tensor:
        """Bool [steps]: whether each query sees any version. Linear in steps and versions."""
        begins, ends = (self.start - self.first).clamp(0, steps), (self.end - self.first).clamp(0, steps)
        counts = torch.bincount(begins, minlength=steps + 1) - torch.bincount(ends, minlength=steps + 1)
        return counts[:steps].cumsum(0) > 0


def interval_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    intervals: Intervals,
    *,
    backend: AttentionBackend = "auto",
) -> Tensor:
    """softmax(QKᵀ / √d) V over the versions that each step sees.

    query: [1, H, T, d]; key, value: [1, H, V, d], V ≥ 1. Returns [1, H, T, d]; rows of steps that see nothing
    mean nothing, but are finite. `auto` takes FlexAttention on a GPU where it runs forward and backward, else
    scaled-dot-product attention with a bool mask.
    """
    if backend == "auto":
        backend = (
            "flex" if query.is_cuda and _flex_runs(query.device, query.dtype, query.shape[-1]) else "sdpa"
        )
    attend = _flex if backend == "flex" else _sdpa
    return attend(query, key, value, intervals)


def _sdpa(query: Tensor, key: Tensor, value: Tensor, intervals: Intervals) -> Tensor:
    steps, versions = query.shape[2], key.shape[2]
    group = max(1, MASK_ELEMENTS // versions)
    out = []
    for at in range(0, steps, group):
        part = query[:, :, at : at + group]
        mask = intervals.mask(at, part.shape[2])
        # A row that sees nothing looks at everything for now; the caller throws its result away.
        mask |= ~mask.any(dim=1, keepdim=True)
        out.append(F.scaled_dot_product_attention(part, key, value, attn_mask=mask))
    return torch.cat(out, dim=2)


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


@functools.cache
def _flex_runs(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether the fused kernel compiles and runs for such heads on this device, tried once on a small case."""
    if width not in FLEX_HEAD_WIDTHS:
        return False
    interval = torch.arange(2 * BLOCK, device=device)
    heads = [torch.randn(1, 1, 2 * BLOCK, width, device=device, dtype=dtype) for _ in range(3)]
    query, key, value = (head.requires_grad_() for head in heads)
    try:
        with torch.enable_grad():
            _flex(query, key, value, Intervals(interval, interval + 9, 0)).sum().backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # compilers fail in many ways, and the other backend gives the same values
        logging.getLogger(__name__).warning("FlexAttention does not run on %s: %s", device, error)
        return False
    return True


def _flex(query: Tensor, key: Tensor, value: Tensor, intervals: Intervals) -> Tensor:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    steps, versions, first = query.shape[2], key.shape[2], intervals.first
    # Whole blocks only, so that no index runs past the ends of `start` and `end`.
    more_steps, more_versions = -steps % BLOCK, -versions % BLOCK
    query = F.pad(query, (0, 0, 0, more_steps))
    key, value = F.pad(key, (0, 0, 0, more_versions)), F.pad(value, (0, 0, 0, more_versions))
    start, end = F.pad(intervals.start, (0, more_versions)), F.pad(intervals.end, (0, more_versions))

    def sees(batch: Tensor, head: Tensor, q: Tensor, v: Tensor) -> Tensor:
        return (start[v] <= q + first) & (q + first < end[v])

    block_mask = create_block_mask(
        sees, None, None, query.shape[2], key.shape[2], device=str(query.device), BLOCK_SIZE=BLOCK
    )
    # Only the compiled kernel is fused; on a CPU the plain one serves to check the mask.
    attend = _compiled_flex() if query.is_cuda else cast(Callable[..., Any], flex_attention)
    return torch.nan_to_num(attend(query, key, value, block_mask=block_mask)[:, :, :steps])
