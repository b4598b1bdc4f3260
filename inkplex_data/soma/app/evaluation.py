"""Scoring a corpus: every token, without learning, in the source domain (seeds/001, sections 6 and 8)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from inkplex_data.soma.app.corpora import Corpus
from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer
from inkplex_data.soma.tokens.token_stream import TokenStream

if TYPE_CHECKING:
    from inkplex_data.soma.learner.learner import Learner

_TAKEN = 4_096


@dataclass(frozen=True)
class Evaluation:
    """nats: of all tokens that are not masked, each by its weight. tokens, source_bytes: how many those are."""

    nats: float
    tokens: int
    source_bytes: int

    @property
    def bits_per_byte(self) -> float | None:
        """None for no bytes."""
        return self.nats / math.log(2) / self.source_bytes if self.source_bytes else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bits_per_byte": self.bits_per_byte}

    def text(self) -> str:
        bits = self.bits_per_byte
        told = "nothing to score" if bits is None else f"{bits:.4f} bits per byte"
        return f"{told} over {self.source_bytes:,} bytes in {self.tokens:,} tokens"


def evaluate_corpus(learner: Learner, corpus: Corpus, tokenizer: SomaTokenizer) -> Evaluation:
    """Read a corpus from its beginning and score it. The learner's state is as it was before."""
    stream = TokenStream(corpus.documents, tokenizer)
    before = learner.state()
    nats, tokens, source_bytes = 0.0, 0, 0
    try:
        while (batch := stream.take(_TAKEN)) is not None:
            nats += float((learner.score(batch) * batch.weights).sum())
            tokens += int((batch.weights > 0).sum())
            source_bytes += int(batch.source_bytes[batch.weights > 0].sum())
    finally:
        learner.restore(before)
    return Evaluation(nats, tokens, source_bytes)
