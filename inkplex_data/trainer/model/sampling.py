"""Picking one id from logits: greedy, or temperature and top-k."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inkplex_data.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How text and audio ids are drawn; the released generator's defaults (seeds/000, section 7).

    A temperature of 0 is greedy. A top-k of 0 keeps every id. Raises UsageError for other numbers below 0, and
    for temperatures that are not finite.
    """

    text_temperature: float = 0.7
    text_top_k: int = 25
    audio_temperature: float = 0.8
    audio_top_k: int = 250

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < float("inf"):
                raise UsageError(f"{name} must be 0 or more, got {value}")


def sample(logits: Tensor, *, temperature: float, top_k: int, generator: torch.Generator) -> Tensor:
    """Ids int64 [B] drawn from logits [B, C], in float32. Greedy where the temperature is 0."""
    logits = logits.float()
    if temperature <= 0:
        return logits.argmax(dim=-1)
    scaled = logits / temperature
    ids = None
    if 0 < top_k < scaled.shape[-1]:
        scaled, ids = torch.topk(scaled, top_k, dim=-1)
    # Dividing by exponential noise and taking the largest draws from the softmax without a host round trip.
    noise = torch.empty_like(scaled).exponential_(generator=generator)
    choice = (scaled.softmax(dim=-1) / noise).argmax(dim=-1, keepdim=True)
    return (choice if ids is None else ids.gather(-1, choice))[:, 0]
