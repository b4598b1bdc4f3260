"""Current sequence memory: one shared writer and the readers that look at it from inside PersonaPlex.

The writer turns each version of a token into a slot; a reader is cross-attention from native states to the
slots visible at each step (seeds/000, "Current sequence memory", sections 4 to 7). Writer and four readers
have 184,691,712 parameters. Both compute in their parameters' dtype, float32 in training, whatever the
native model uses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from inkplex_data.errors import ConfigError
from inkplex_data.grid import KINDS, PLAN_LIMIT
from inkplex_data.memory.plan import plan_chunks
from inkplex_data.memory.versions import AGE_BUCKETS, RECENCY_BUCKETS
from inkplex_data.trainer.memory.visibility import AttentionBackend, Intervals, interval_attention

EPSILON = 1e-5
TOKEN_GROUP = 8_192
"""Tokens whose states are widened to float32 at once: 384 MiB at 3 rows of 4,096."""

ChunkPlan = NDArray[np.int64]
"""int64 [chunks, 3]: first step, end step, union size."""

SlotSource = Callable[[Tensor], Tensor]
"""Slots [n, M] of the versions with the given indices, int64 [n]."""


class MemoryWriter(nn.Module):
    """Makes slots out of token states, lexical features and metadata buckets (seeds/000, section 4).

    Slot of version v of token n = LayerNorm(hidden(normed state rows of n) + text(feature of n, or zeros
    while its word is not whole) + kind + recency + age). The text bias stays when the word is not whole.
    """

    def __init__(
        self,
        state_rows: int = 3,
        state_width: int = 4096,
        text_width: int = 4096,
        slot_width: int = 1024,
    ) -> None:
        super().__init__()
        self.slot_width = slot_width
        self.hidden = nn.Linear(state_rows * state_width, slot_width)
        self.text = nn.Linear(text_width, slot_width)
        self.kind = nn.Embedding(len(KINDS), slot_width)
        self.recency = nn.Embedding(RECENCY_BUCKETS, slot_width)
        self.age = nn.Embedding(AGE_BUCKETS, slot_width)
        self.norm = nn.LayerNorm(slot_width, eps=EPSILON)

    def forward(  # noqa: PLR0917 (the names and their order are a stable entry point)
        self,
        states: Tensor,
        text_features: Tensor,
        kind: Tensor,
        row: Tensor,
        recency: Tensor,
        age: Tensor,
        whole: Tensor,
    ) -> Tensor:
        """Slots [V, M] of V versions of N tokens.

        states: [N, S, D], any float type; text_features: [N, E]; kind: integers [N], 0 … 6. row: integers
        [V], the token of each version; recency 0 … 16, age 0 … 14: integers [V]; whole: bool [V].
        """
        tokens = self.write_tokens(states, text_features, kind)
        return self.write_versions(tokens, row, recency, age, whole)

    def write_tokens(self, states: Tensor, text_features: Tensor, kind: Tensor) -> Tensor:
        """What all versions of a token share: [N, 2, M], without and with its lexical feature.

        In groups of tokens whose float32 states are made again in backward, so that they are never all held.
        """
        if not len(states):
            return self.hidden.weight.new_zeros(0, 2, self.slot_width)
        groups = [
            _recompute(self._write_group, states[at : at + TOKEN_GROUP], text_features[at : at + TOKEN_GROUP])
            for at in range(0, len(states), TOKEN_GROUP)
        ]
        return torch.cat(groups) + self.kind(kind.long()).unsqueeze(1)

    def _write_group(self, states: Tensor, text_features: Tensor) -> Tensor:
        dtype, width = self.hidden.weight.dtype, states.shape[-1]
        with no_autocast(states):
            normed = F.layer_norm(states.to(dtype), (width,), eps=EPSILON)
            plain = self.hidden(normed.flatten(1)) + self.text.bias
            lexical = F.linear(text_features.to(dtype), self.text.weight)
        return torch.stack([plain, plain + lexical], dim=1)

    def write_versions(
        self, tokens: Tensor, row: Tensor, recency: Tensor, age: Tensor, whole: Tensor
    ) -> Tensor:
        """Slots [V, M] from `write_tokens` [N, 2, M] and the version columns, integers [V]."""
        with no_autocast(tokens):
            content = F.embedding(2 * row.long() + whole.long(), tokens.flatten(0, 1))
            return self.norm(content + self.recency(recency.long()) + self.age(age.long()))


class MemoryReader(nn.Module):
    """Cross-attention from native states to visible slots (seeds/000, section 6).

    Output weights and biases start at zero, so a new reader changes nothing; where nothing is visible the
    residual is exactly zero, also after the output bias has trained.
    """

    def __init__(self, native_width: int = 4096, slot_width: int = 1024, heads: int = 32) -> None:
        super().__init__()
        if native_width % heads:
            raise ConfigError(f"native width {native_width} does not split into {heads} reader heads")
        self.heads = heads
        self.query_norm = nn.LayerNorm(native_width, eps=EPSILON)
        self.query = nn.Linear(native_width, native_width)
        self.key = nn.Linear(slot_width, native_width)
        self.value = nn.Linear(slot_width, native_width)
        self.output = nn.Linear(native_width, native_width)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(
        self,
        native: Tensor,
        slots: Tensor | SlotSource,
        start: Tensor,
        end: Tensor,
        *,
        first_step: int = 0,
        chunks: ChunkPlan | None = None,
        limit: int = PLAN_LIMIT,
        backend: AttentionBackend = "auto",
    ) -> Tensor:
        """Residual [1, T, W] in the type of `native`, to be added to it.

        native: [1, T, W], steps first_step … first_step + T − 1 of one call. slots: [V, M], or what makes those of a
        chunk's versions. start, end: integers [V]: step t sees version v when start ≤ t < end. chunks: int64
        [n, 3] of first step, end step and union size, as `plan_chunks` gives them for these versions; planned
        here with `limit` when absent. Activations of a chunk are made again in backward.
        Raises ValueError for a plan that leaves out a step.
        """
        slots_of = (lambda columns: F.embedding(columns, slots)) if isinstance(slots, Tensor) else slots
        last = first_step + native.shape[1]
        if chunks is None:
            chunks = plan_chunks(
                start.cpu().numpy() - first_step,
                end.cpu().numpy() - first_step,
                steps=native.shape[1],
                limit=limit,
            ) + np.array([first_step, first_step, 0])
        start, end = start.long(), end.long()
        residuals, at = [], first_step
        for begin, stop in chunks[:, :2].clip(first_step, last).tolist():
            if begin >= stop:
                continue
            if begin != at:
                break
            part = native[:, begin - first_step : stop - first_step]
            columns = torch.nonzero((start < stop) & (end > begin) & (start < end)).flatten()
            # In order of appearance, so that blocks of the interval mask are mostly full or mostly empty.
            columns = columns[torch.argsort(start[columns], stable=True)]
            if len(columns):
                intervals = Intervals(start[columns], end[columns], begin)
                residuals.append(_recompute(self._read_chunk, part, slots_of, columns, intervals, backend))
            else:
                residuals.append(torch.zeros_like(part))
            at = stop
        if at != last:
            raise ValueError(f"the chunk plan leaves out steps from {at} on; {last} were asked for")
        return torch.cat(residuals, dim=1) if residuals else torch.zeros_like(native)

    def _read_chunk(
        self,
        native: Tensor,
        slots_of: SlotSource,
        columns: Tensor,
        intervals: Intervals,
        backend: AttentionBackend,
    ) -> Tensor:
        with no_autocast(native):
            key, value = self.keys_and_values(slots_of(columns))
            attended = interval_attention(self.queries(native), key, value, intervals, backend=backend)
            return self.residual(attended, intervals.seen(native.shape[1]), native.dtype)

    def keys_and_values(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """slots [n, M] to keys and values, each [1, H, n, W / H]."""
        return self._heads(self.key(slots)[None]), self._heads(self.value(slots)[None])

    def queries(self, native: Tensor) -> Tensor:
        """native [1, T, W] to queries [1, H, T, W / H] in the reader's dtype."""
        return self._heads(self.query(self.query_norm(native.to(self.query.weight.dtype))))

    def residual(self, attended: Tensor, seen: Tensor, dtype: torch.dtype) -> Tensor:
        """attended [1, H, T, W / H] to the residual [1, T, W]; zero where `seen`, bool [T], is False."""
        out = self.output(attended.transpose(1, 2).flatten(-2))
        return torch.where(seen.view(1, -1, 1), out, torch.zeros_like(out)).to(dtype)

    def _heads(self, x: Tensor) -> Tensor:
        B, n, W = x.shape
        return x.view(B, n, self.heads, W // self.heads).transpose(1, 2)


def _recompute(function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """Call `function`; when gradients are wanted, keep its inputs only and call it again in backward."""
    if torch.is_grad_enabled():
        return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)
    return function(*arguments)


def no_autocast(like: Tensor) -> torch.autocast:
    """Memory computes in its parameters' dtype even inside an autocast region of the native model."""
    return torch.autocast(like.device.type, enabled=False)
