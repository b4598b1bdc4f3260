"""Stream delays: the one place where aligned streams become model positions, and logits come back.

Stored streams are aligned: column f of a call holds what all 17 streams do in frame f. The model sees
delayed streams. Position 0 of the delayed sequence holds the initial ids; stream k of frame f lies at
position `1 + f + delay_k`, and positions before a stream's first frame hold its initial id
(seeds/000, "PersonaPlex native LM audit", sections 7 and 8). Step t reads position t and predicts
position t + 1: so its text and semantic logits are those of frame t, and its acoustic logits, delayed by
one, those of frame t − 1.

Training lays whole calls out with `Delays.sequence` and brings logits back with `Delays.align`;
generation asks `Delays.positions` where each token of a frame goes. Nothing else knows the delays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from inkplex_data.errors import UsageError

RELEASED_DELAYS = (0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
"""Text 0; each voice's semantic codebook 0 and its seven acoustic ones 1 (seeds/000, section 8)."""


class Delays:
    """Delays of `streams` streams in frames: text first, then agent and caller codebooks."""

    def __init__(self, delays: Sequence[int]) -> None:
        if not delays or min(delays) < 0:
            raise UsageError(
                f"delays must be zero or more frames for at least one stream, got {list(delays)}"
            )
        self.delays = tuple(delays)
        self.maximum = max(self.delays)

    def __len__(self) -> int:
        return len(self.delays)

    def positions(self, frame: int, device: torch.device | None = None) -> Tensor:
        """Position of each stream's token of `frame` in the delayed sequence, int64 [K]."""
        return torch.tensor(self.delays, device=device) + (1 + frame)

    def sequence(self, codes: Tensor, initial: Tensor) -> Tensor:
        """Positions 0 … T of the delayed sequence.

        codes: int64 [B, K, T], aligned. initial: int64 [K], the id of each stream before its first frame.
        Returns int64 [B, K, T + 1]; `[..., :T]` is what the model reads, `[..., 1:]` what it predicts.
        A stream with delay d drops its last d frames: no position of these T steps predicts them.

        >>> codes = torch.tensor([[[1, 2, 3], [4, 5, 6]]])
        >>> Delays([0, 1]).sequence(codes, initial=torch.tensor([8, 9])).tolist()
        [[[8, 1, 2, 3], [9, 9, 4, 5]]]
        """
        B, K, T = codes.shape
        if len(self.delays) != K:
            raise UsageError(f"the model has {len(self.delays)} streams, the codes have {K}")
        out = initial.to(codes).view(1, K, 1).repeat(B, 1, T + 1)
        for k, delay in enumerate(self.delays):
            if delay < T:
                out[:, k, 1 + delay :] = codes[:, k, : T - delay]
        return out

    def align(self, logits: Tensor, *, first_stream: int) -> tuple[Tensor, Tensor]:
        """Bring logits of steps back to the frames that they predict.

        logits: [B, k, T, C] by step, for streams `first_stream` … `first_stream + k − 1`.
        Returns (logits [B, k, T, C] by frame, mask bool [B, k, T]); the last d frames of a stream with
        delay d have no step: NaN, and False in the mask.
        """
        B, k, T, _ = logits.shape
        delays = self.delays[first_stream : first_stream + k]
        mask = torch.ones(B, k, T, dtype=torch.bool, device=logits.device)
        if not any(delays):
            return logits, mask
        rows = []
        for index, delay in enumerate(delays):
            row = logits[:, index]
            if delay:
                kept = max(T - delay, 0)
                row = torch.cat([row[:, T - kept :], torch.full_like(row[:, : T - kept], torch.nan)], dim=1)
                mask[:, index, kept:] = False
            rows.append(row)
        return torch.stack(rows, dim=1), mask
