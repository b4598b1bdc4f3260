"""Chat and dreams: a user's words are learned, soma's own are only perceived (seeds/001, section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from inkplex_data.soma.tokens.protocol import TargetWeights
from inkplex_data.soma.tokens.soma_tokenizer import SOMA, TURN, USER, IncrementalDecoder, SomaTokenizer
from inkplex_data.soma.tokens.token_stream import TokenBatch

if TYPE_CHECKING:
    from collections.abc import Generator

    from inkplex_data.soma.learner.learner import Learner
    from inkplex_data.soma.learner.soma_config import BatchReport


def hear(learner: Learner, tokenizer: SomaTokenizer, text: str) -> BatchReport:
    """Take in a user's turn and learn its words; what follows is soma's to say. `text` begins with a space for soma, as
    words of a transcript do. Raises UsageError while a generation is open."""
    said = tokenizer.encode(b" " + text.strip().encode("utf-8", "replace"))
    ids = np.concatenate([[USER], said, [TURN, SOMA]]).astype(np.int64)
    return learner.learn(
        TokenBatch(ids, TargetWeights().of(ids.astype(np.int32)), tokenizer.piece_bytes[ids].astype(np.int64))
    )


def reply(
    learner: Learner, tokenizer: SomaTokenizer, limit: int, *, seed: int, temperature: float
) -> Generator[str]:
    """What soma says, in pieces of text; close it to stop it between two tokens."""
    yield from _spoken(tokenizer, learner.generate(limit, seed=seed, temperature=temperature))


def dream(
    learner: Learner, tokenizer: SomaTokenizer, limit: int, *, seed: int, temperature: float
) -> Generator[str]:
    """What soma says of its own accord, in pieces of text."""
    yield from _spoken(tokenizer, learner.dream(limit, seed=seed, temperature=temperature))


def _spoken(tokenizer: SomaTokenizer, tokens: Iterator[int]) -> Generator[str]:
    with closing(tokens):  # type: ignore[type-var]
        yield from IncrementalDecoder(tokenizer).text(tokens)
