"""Small learners and batches. The tokenizer is the packaged one; most batches are made of ids, as a corpus would give them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_config import SomaConfig
from inkplex_data.soma.tokens.soma_tokenizer import SHA256
from inkplex_data.soma.tokens.token_stream import TokenBatch

SMALL = SomaConfig(bands=2, depth=2, batch=16)


def batch_of(ids: object, weights: object = 1.0, source_bytes: int = 3) -> TokenBatch:
    """A batch as a corpus gives it; each token stands for three bytes."""
    tokens = np.asarray(ids, dtype=np.int64)
    return TokenBatch(
        tokens,
        np.broadcast_to(np.asarray(weights, np.float32), tokens.shape).copy(),
        np.full(len(tokens), source_bytes, np.int64),
        None,
    )


def weights_of(learner: Learner) -> list[torch.Tensor]:
    return [value.detach().clone() for value in learner.network.parameters()]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.fixture
def learner() -> Learner:
    """Fresh, with two bands."""
    return Learner.fresh(SMALL, SHA256)
