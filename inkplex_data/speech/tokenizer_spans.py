"""Which bytes of a text each SentencePiece piece stands for, through normalisation and byte fallback.

SentencePiece's own offsets leave pieces empty where one character became several (`ﬁ` → `f`, `i`) and put
all but the last byte piece of a character at its start. Here the model's alignment of the normalised text
with the original one is walked piece by piece instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import ConfigError

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

SPACE = "▁".encode()


class Spans(NamedTuple):
    """Pieces of a text; piece i stands for the bytes [starts[i], ends[i]) of the text's UTF-8."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


class SpanFinder:
    """Finds spans with one loaded model."""

    def __init__(self, model: SentencePieceProcessor) -> None:
        self._model = model
        size = model.vocab_size()
        self._spelled = [model.id_to_piece(i).encode() for i in range(size)]
        self._is_byte = [model.is_byte(i) for i in range(size)]
        probe, _ = model.normalize(b"a", with_offsets=True)
        self._adds_space = probe.startswith(SPACE)

    def __call__(self, text: str) -> Spans:
        """Pieces and spans of `text`, which UTF-8 must be able to hold."""
        source = text.encode()
        ids: list[int] = self._model.encode(text)
        normal, offsets = self._model.normalize(source, with_offsets=True)
        begins, stops = _source_ranges(np.asarray(offsets, np.int64))
        if self._adds_space:
            stops[: len(SPACE)] = begins[: len(SPACE)]
        starts, ends, at = [], [], 0
        for piece in ids:
            if self._is_byte[piece]:
                start, end = _byte_span(source, normal, at, int(begins[at]), int(stops[at]))
                at += 1
            else:
                stop = at + len(self._spelled[piece])
                start = int(begins[at])
                end = start if self._spelled[piece] == SPACE else int(stops[stop - 1])
                at = stop
            starts.append(start)
            ends.append(end)
        if at != len(normal):
            # Only an unknown piece could do this, and a model with byte fallback makes none.
            raise ConfigError(f"the tokenizer's pieces of {text!r} do not spell its normalised form")
        return Spans(ids, starts, ends)


def _source_ranges(offsets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Source range of each normalised byte, from the N + 1 source offsets that SentencePiece gives.

    Bytes with one offset came from one stretch of the source, which ends where the next offset begins.
    """
    begins = offsets[:-1]
    following = np.searchsorted(offsets, begins, side="right")
    return begins, offsets[np.minimum(following, len(offsets) - 1)]


def _byte_span(source: bytes, normal: bytes, at: int, start: int, end: int) -> tuple[int, int]:
    """Span of a byte piece: its own byte where the character was not normalised, else the whole stretch."""
    first = at
    while normal[first] & 0xC0 == 0x80:
        first -= 1
    if normal[first : first + end - start] == source[start:end] and first + end - start > at:
        return start + at - first, start + at - first + 1
    return start, end
