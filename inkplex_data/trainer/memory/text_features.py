"""Lexical features of memory tokens: the mean of the frozen text embeddings of their pieces.

e_n = Σ embeddings of the pieces that overlap token n / max(1, count); zeros for a token without pieces
(seeds/000, "Causal lexical feature"). They are a function of integers and of a frozen table, so they are
computed on the device instead of being stored or sent.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inkplex_data.errors import UsageError
from inkplex_data.trainer.model.layers import at_least_float32


@torch.no_grad()
def text_features(offsets: Tensor, pieces: Tensor, table: Tensor) -> Tensor:
    """Features [N, E] of N tokens from their pieces in CSR form.

    offsets: integers [N + 1]; the pieces of token n are `pieces[offsets[n]:offsets[n + 1]]`. pieces: integers
    [P], rows of table. table: [C, E], the frozen text embedding, any float type. Summed in float32 (or wider),
    whatever the table's type: only the rows that occur are widened. Raises UsageError for offsets that do not
    rise from 0 to P, or pieces outside the table.
    """
    offsets, pieces = offsets.to(table.device, torch.long), pieces.to(table.device, torch.long)
    if (
        not len(offsets)
        or int(offsets[0])
        or int(offsets[-1]) != len(pieces)
        or bool((offsets.diff() < 0).any())
    ):
        raise UsageError(f"piece offsets must rise from 0 to the number of pieces, {len(pieces)}")
    dtype = at_least_float32(table.dtype)
    if not len(pieces):
        return torch.zeros(len(offsets) - 1, table.shape[1], dtype=dtype, device=table.device)
    low, high = (int(value) for value in pieces.aminmax())
    if low < 0 or high >= len(table):
        raise UsageError(f"pieces must be 0 … {len(table) - 1}, got {low} … {high}")
    used, index = torch.unique(pieces, return_inverse=True)
    return F.embedding_bag(index, table[used].to(dtype), offsets, mode="mean", include_last_offset=True)
