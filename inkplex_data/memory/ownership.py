"""The tokens table of a recording: each computed token once, under the request that owns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import UNKNOWN_US
from inkplex_data.corpus.recordings.prefix_chains import Ownership, Request
from inkplex_data.grid import KINDS
from inkplex_data.memory.pieces import PieceTokenizer, token_pieces
from inkplex_data.memory.tables import MEDIA, TOKENS
from inkplex_data.memory.token_order import arrival_rank
from inkplex_data.memory.words import Words, assemble_words

__all__ = ["Ownership", "Request", "tabulate"]

_MEDIA_NAMES = {0: None, **dict(enumerate(MEDIA.categories, start=1))}
_Scalar = TypeVar("_Scalar", bound=np.generic)


class ClockedRequest(Request, Protocol):
    """A request with each of the clocks that its arrivals come from, int64 [n] of session time."""

    @property
    def available_us(self) -> NDArray[np.int64]: ...
    @property
    def ready_us(self) -> NDArray[np.int64]:
        """UNKNOWN_US where it was not measured."""
        ...

    @property
    def source_us(self) -> NDArray[np.int64]:
        """UNKNOWN_US where nobody says."""
        ...


def tabulate(
    requests: Sequence[ClockedRequest],
    *,
    tokenizer: PieceTokenizer | None = None,
    source: str = "recording.jsonl",
) -> tuple[pl.DataFrame, Words]:
    """The tokens table of one recording and its words.

    The table is `memory.tables.TOKENS` without recording_ix, in layout order. `tokenizer` fills `piece_ids`;
    without one they are null. `word_ix` is the first word that the token touches, null where it touches none.

    Raises RecordingError for every contradiction of `Ownership`.
    """
    ownership = Ownership(requests, source=source)
    by_number = {request.call: request for request in requests}
    ordered = [by_number[number] for number in ownership.numbers]
    sizes = [len(request.ids) for request in ordered]
    total = sum(sizes)
    arrival_us = _joined([request.arrival_us for request in ordered], np.int64)
    positions = [ownership.prefix_tokens(request.call) + np.arange(len(request.ids)) for request in ordered]
    kinds = pl.Series(_joined([request.kinds for request in ordered], np.uint8))
    media = pl.Series(_joined([request.media for request in ordered], np.uint8))
    table = pl.DataFrame(
        {
            "row": np.arange(total, dtype=np.int32),
            "call": np.repeat(np.array(ownership.numbers, np.int32), sizes),
            "position": _joined(positions, np.int32),
            "token_id": _joined([request.ids for request in ordered], np.int32),
            "kind": kinds.replace_strict(dict(enumerate(KINDS)), return_dtype=TOKENS["kind"]),
            "bytes": pl.Series(
                [spelled for request in ordered for spelled in request.bytes], dtype=pl.Binary
            ),
            "special": _joined([request.special for request in ordered], np.bool_),
            "media": media.replace_strict(_MEDIA_NAMES, return_dtype=MEDIA),
            "arrival_us": arrival_us,
            "available_us": _joined([request.available_us for request in ordered], np.int64),
            "ready_us": _times([request.ready_us for request in ordered]),
            "source_us": _times([request.source_us for request in ordered]),
            "rank": arrival_rank(arrival_us).astype(np.int32),
        }
    )
    words = assemble_words(table)
    word_ix = pl.Series("word_ix", words.word_of_row())
    pieces = (
        pl.Series("piece_ids", [None] * total, dtype=TOKENS["piece_ids"])
        if tokenizer is None
        else token_pieces(words, tokenizer).series()
    )
    return table.with_columns(word_ix.set(word_ix < 0, None), pieces), words


def _times(arrays: Sequence[NDArray[np.int64]]) -> pl.Series:
    """Times one after another, null where they are not known."""
    us = pl.Series(_joined(arrays, np.int64))
    return us.set(us == UNKNOWN_US, None)


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype, copy=False)
