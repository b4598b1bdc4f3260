"""Whitespace-delimited words of the token bytes, and when each is complete.

Rules: seeds/000, "Current sequence memory", section 4, "Causal lexical feature". The bytes of one request's
computed tokens, in position order, split at whitespace bytes (09–0D and 20). A special token is a
boundary and lends no bytes; a media placeholder carries no bytes and separates nothing. A word is
complete once its *completer* has arrived: the token that holds the whitespace after it, or the special
token after it, or else the last token of its request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.memory.tables import NEVER_US, WHOLE
from inkplex_data.memory.token_order import arrival_rank, in_layout_order

_WHITESPACE = np.zeros(256, bool)
_WHITESPACE[[0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20]] = True


@dataclass(frozen=True)
class Words:
    """Words of one recording, in layout order, and the bytes that each token lends to them.

    Rows index the tokens in layout order. A *span* says that bytes [span_start, span_end) of word
    `span_word` belong to token `span_row`; spans are sorted by word and by row at once.
    """

    tokens: int
    """N, the number of tokens."""
    request: NDArray[np.int32]
    """[W] number of the request that computed each word."""
    first: NDArray[np.int32]
    """[W] row of the token that holds the word's first byte."""
    completer: NDArray[np.int32]
    """[W] row of the token whose arrival completes the word."""
    offsets: NDArray[np.int64]
    """[W + 1] where each word lies in `pool`."""
    pool: bytes
    """The bytes of all words, one after another."""
    span_word: NDArray[np.int32]
    """[S]"""
    span_row: NDArray[np.int32]
    """[S]"""
    span_start: NDArray[np.int32]
    """[S] first byte within the word."""
    span_end: NDArray[np.int32]
    """[S] end byte within the word, exclusive."""

    def __len__(self) -> int:
        return len(self.request)

    def bytes_of(self, word: int) -> bytes:
        """The word as the tokens spell it; not always UTF-8."""
        return self.pool[self.offsets[word] : self.offsets[word + 1]]

    def word_of_row(self) -> NDArray[np.int32]:
        """[N] the first word that each token touches, −1 where it touches none."""
        first = np.full(self.tokens, -1, np.int32)
        # Assigning from the last span to the first leaves the first word of each row.
        first[self.span_row[::-1]] = self.span_word[::-1]
        return first

    def whole_limits(self, tokens: pl.DataFrame) -> pl.DataFrame:
        """When each token is whole, `memory.tables.WHOLE`: one line per token, in layout order.

        A token is whole from `complete_us` on, the session time at which every word that it touches is
        complete, while the token of rank `oldest_rank`, the oldest first token of those words, is live.
        Neither depends on a call's clock or on the window, so one table serves every call of a recording.

        `tokens`: the table that the words were assembled from, in any order.
        """
        arrival_us = in_layout_order(tokens)["arrival_us"].to_numpy().astype(np.int64)
        complete_us = np.full(self.tokens, NEVER_US, np.int64)
        oldest_rank = np.full(self.tokens, -1, np.int64)
        at = np.flatnonzero(np.diff(self.span_row, prepend=-1))
        if len(at):
            row, rank = self.span_row[at], arrival_rank(arrival_us)
            complete_us[row] = np.maximum.reduceat(arrival_us[self.completer[self.span_word]], at)
            oldest_rank[row] = np.minimum.reduceat(rank[self.first[self.span_word]], at)
        return pl.DataFrame({"complete_us": complete_us, "oldest_rank": oldest_rank}, schema=WHOLE)


def assemble_words(tokens: pl.DataFrame) -> Words:
    """Words of a token table: columns call, position, special, bytes, arrival_us, in any order.

    A `media` column, where present, marks placeholders, whose bytes are ignored.
    Raises ValueError for a missing column and RecordingError for a place that two tokens claim.

    The first token of three begins a word that the space in the third completes:

    >>> spelled = {"bytes": [b"bill", b"ing", b" is"], "special": False, "arrival_us": [0, 0, 90_000]}
    >>> words = assemble_words(pl.DataFrame({"call": 0, "position": range(3)} | spelled))
    >>> [words.bytes_of(0), words.bytes_of(1)], words.first.tolist(), words.completer.tolist()
    ([b'billing', b'is'], [0, 2], [2, 2])
    """
    tokens = in_layout_order(tokens)
    count = len(tokens)
    request = tokens["call"].to_numpy().astype(np.int32)
    special = tokens["special"].fill_null(False).to_numpy()
    silent = special
    if "media" in tokens.columns:
        silent = special | tokens["media"].is_not_null().to_numpy()
    spelled = tokens["bytes"].fill_null(b"")
    if silent.any():
        spelled = tokens.select(
            pl.when(pl.Series(silent)).then(pl.lit(b"")).otherwise(spelled).alias("bytes")
        )["bytes"]
    lengths = spelled.bin.size("b").to_numpy()
    data = np.frombuffer(b"".join(spelled.to_list()), np.uint8)
    row = np.repeat(np.arange(count, dtype=np.int32), lengths)

    blank = _WHITESPACE[data]
    # Bytes i−1 and i are apart when a special token or the border of a request lies between their tokens.
    barriers = np.cumsum(special) + np.cumsum(np.diff(request, prepend=request[:1]) != 0)
    apart = np.diff(barriers[row], prepend=-1) != 0
    after_blank = np.concatenate([[True], blank[:-1]]) if len(data) else blank
    starts = ~blank & (after_blank | apart)

    kept = np.flatnonzero(~blank)
    word = (np.cumsum(starts) - 1)[kept].astype(np.int32)
    word_row = row[kept]
    begin = np.flatnonzero(np.diff(word, prepend=-1))
    offsets = np.append(begin, len(kept)).astype(np.int64)
    first = word_row[begin]
    last_byte = kept[offsets[1:] - 1]

    edges = np.flatnonzero((np.diff(word, prepend=-1) != 0) | (np.diff(word_row, prepend=-1) != 0))
    span_word = word[edges]
    span_end = np.append(edges[1:], len(kept)) - offsets[span_word]
    return Words(
        tokens=count,
        request=request[first],
        first=first,
        completer=_completers(request, special, row, blank, last_byte),
        offsets=offsets,
        pool=data[kept].tobytes(),
        span_word=span_word,
        span_row=word_row[edges],
        span_start=(edges - offsets[span_word]).astype(np.int32),
        span_end=span_end.astype(np.int32),
    )


def _completers(
    request: NDArray[np.int32],
    special: NDArray[np.bool_],
    row: NDArray[np.int32],
    blank: NDArray[np.bool_],
    last_byte: NDArray[np.int64],
) -> NDArray[np.int32]:
    """[W] the earliest of: the next whitespace's token, the next special token, the request's last token."""
    count = len(request)
    last_row = row[last_byte]
    never = np.int64(count)
    blank_after = np.append(blank, False)[last_byte + 1]
    next_row = np.append(row, 0)[last_byte + 1].astype(np.int64)
    by_blank = np.where(blank_after, next_row, never)
    specials = np.append(np.flatnonzero(special), never)
    by_special = specials[np.searchsorted(specials, last_row, side="right").clip(max=len(specials) - 1)]
    by_end = np.searchsorted(request, request[last_row], side="right") - 1
    return np.minimum(np.minimum(by_blank, by_special), by_end).astype(np.int32)
