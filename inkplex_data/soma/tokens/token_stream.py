"""A corpus as batches of tokens of a fixed size, read as it is asked for, with a place to go on from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import CheckpointError
from inkplex_data.soma.tokens.protocol import TargetWeights
from inkplex_data.soma.tokens.soma_tokenizer import IntArray, SomaTokenizer
from inkplex_data.soma.tokens.source_text import Document, Segment


@dataclass(frozen=True)
class Cursor:
    """A place between two tokens of a corpus.

    Tokens are made from segments that begin at a white space, so a place is a segment and how many of its tokens are read:
    `document` counts the corpus's documents, `offset` is the segment's first byte in it, uncompressed, `skip` the tokens.
    `source_bytes` and `tokens` count all that lies before it.
    """

    document: int = 0
    offset: int = 0
    skip: int = 0
    source_bytes: int = 0
    tokens: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Any, *, where: str) -> Cursor:
        """Raises CheckpointError for something else than `to_json` gives."""
        names = cls.__dataclass_fields__.keys()
        if (
            not isinstance(body, dict)
            or body.keys() != names
            or not all(type(number) is int and 0 <= number < 2**63 for number in body.values())
        ):
            raise CheckpointError(
                "the saved place in a corpus is not one",
                where=where,
                next_step="Remove it, and the corpus is read from its beginning.",
            )
        return cls(**body)


@dataclass(frozen=True)
class TokenBatch:
    """Tokens in the order in which they are read. `cursor` is the place behind them, None where they have none."""

    ids: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    """What each token weighs as a target: 0 masked, 0.1, or 1; see `protocol.TargetWeights`."""
    source_bytes: npt.NDArray[np.int64]
    """Bytes of the corpus that each token stands for; 0 for protocol pieces."""
    cursor: Cursor | None = None

    def __len__(self) -> int:
        return len(self.ids)


class TokenStream:
    """Batches of the tokens of some documents, one after another. Not for several threads.

    It holds the tokens of one batch and of one segment at most, however long the corpus is.
    """

    def __init__(
        self, documents: Sequence[Document], tokenizer: SomaTokenizer, cursor: Cursor | None = None
    ) -> None:
        """Begin at `cursor`, by default at the first document. Raises CheckpointError, when read, for a place that the
        documents do not have."""
        self.cursor = cursor or Cursor()
        self._documents, self._tokenizer = documents, tokenizer
        self._encoded = self._segments(self.cursor)
        self._ahead: _Encoded | None = None

    def take(self, count: int) -> TokenBatch | None:
        """The next `count` tokens, fewer at the end of the corpus and None behind it. Errors are those of the source."""
        wanted, parts = count, []
        while wanted and (ahead := self._ahead or next(self._encoded, None)) is not None:
            first, rest = ahead.split(wanted)
            parts.append(first)
            wanted -= len(first.ids)
            self._ahead = rest if len(rest.ids) else None
        if not parts:
            return None
        ids = np.concatenate([part.ids for part in parts])
        source_bytes = self._tokenizer.piece_bytes[ids].astype(np.int64)
        last = parts[-1]
        self.cursor = Cursor(
            last.document,
            last.offset,
            last.skip + len(last.ids),
            self.cursor.source_bytes + int(source_bytes.sum()),
            self.cursor.tokens + len(ids),
        )
        weights = np.concatenate([part.weights for part in parts])
        return TokenBatch(ids.astype(np.int64), weights, source_bytes, self.cursor)

    def _segments(self, cursor: Cursor) -> Iterator[_Encoded]:
        skip = cursor.skip
        for number in range(cursor.document, len(self._documents)):
            weights = TargetWeights()
            offset = cursor.offset if number == cursor.document else 0
            for segment in self._documents[number].segments(offset):
                ids = self._encode(segment)
                encoded = _Encoded(ids, weights.of(ids), number, segment.offset, 0)
                read, rest = encoded.split(skip)
                skip -= len(read.ids)
                if len(rest.ids):
                    yield rest
            if skip:
                raise CheckpointError(
                    "the corpus is not the one in which the saved place lies",
                    where=self._documents[number].name,
                    next_step="Give the corpus as it was, or forget the place and read it from its beginning.",
                )

    def _encode(self, segment: Segment) -> IntArray:
        parts = [
            np.array([part], np.int32) if isinstance(part, int) else self._tokenizer.encode(part)
            for part in segment.parts
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)


@dataclass(frozen=True)
class _Encoded:
    """Tokens of a segment, from its `skip`-th on."""

    ids: IntArray
    weights: npt.NDArray[np.float32]
    document: int
    offset: int
    skip: int

    def split(self, count: int) -> tuple[_Encoded, _Encoded]:
        first = _Encoded(self.ids[:count], self.weights[:count], self.document, self.offset, self.skip)
        skip = self.skip + len(first.ids)
        return first, _Encoded(self.ids[count:], self.weights[count:], self.document, self.offset, skip)
