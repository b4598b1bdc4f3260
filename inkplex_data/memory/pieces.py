"""Which pieces of the speech model's tokenizer each token's bytes overlap.

Rule: seeds/000, "Current sequence memory", section 4, "Causal lexical feature". The complete word is
tokenised; a token's pieces are those whose byte spans overlap its bytes, in order, one entry per piece.
A lone `▁` stands for the space before a word, which the word's bytes do not hold: it belongs to no token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from inkplex_data.memory.words import Words

LONE_SPACE = "▁"


class PieceTokenizer(Protocol):
    """What this module needs of a SentencePiece tokenizer."""

    def pieces_with_spans(self, text: str) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Ids, and where each begins and ends in the UTF-8 bytes of `text` as given, before normalisation."""
        ...

    def piece(self, piece_id: int) -> str:
        """The piece as the vocabulary spells it."""
        ...


@dataclass(frozen=True)
class TokenPieces:
    """Piece ids of every token, in compressed sparse rows."""

    offsets: NDArray[np.int64]
    """[N + 1] where each token's ids lie; rows in layout order."""
    ids: NDArray[np.int32]
    """[K]"""

    def series(self) -> pl.Series:
        """The `piece_ids` column of the tokens table: List(Int32), an empty list where there are none."""
        lists = pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.ids))
        return pl.Series("piece_ids", lists, dtype=pl.List(pl.Int32))


def decode_with_offsets(spelled: bytes) -> tuple[str, NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """`spelled` as text, with U+FFFD where it is not UTF-8, and where its bytes came from.

    Returns the text, and for each byte of the text's own UTF-8 the start and the end of the bytes of
    `spelled` that it stands for, or None twice where the text's bytes are `spelled` itself.
    """
    try:
        return spelled.decode(), None, None
    except UnicodeDecodeError:
        pass
    text: list[str] = []
    starts: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    at = 0
    while at < len(spelled):
        try:
            good, bad_end, bad_start = spelled[at:].decode(), len(spelled), len(spelled)
        except UnicodeDecodeError as error:
            good = spelled[at : at + error.start].decode()
            bad_start, bad_end = at + error.start, at + error.end
        text.append(good)
        starts.append(np.arange(at, bad_start))
        ends.append(np.arange(at, bad_start) + 1)
        if bad_start < bad_end:
            # Each unit that cannot be decoded becomes one U+FFFD, as bytes.decode(errors="replace") does.
            text.append("\ufffd")
            starts.append(np.full(3, bad_start))
            ends.append(np.full(3, bad_end))
        at = bad_end
    return "".join(text), np.concatenate(starts), np.concatenate(ends)


def token_pieces(words: Words, tokenizer: PieceTokenizer) -> TokenPieces:
    """Piece ids of every token of `words`, for tokens in layout order.

    Each distinct word is tokenised once. Raises ValueError where the tokenizer's spans do not run forward.

    The piece of a word that two tokens spell belongs to both:

    >>> spelled = {"bytes": [b"pay", b"ment", b" is due"], "special": False, "arrival_us": 0}
    >>> words = assemble_words(pl.DataFrame({"call": 0, "position": range(3)} | spelled))
    >>> [[tokenizer.piece(one) for one in ids] for ids in token_pieces(words, tokenizer).series()]
    [['▁payment'], ['▁payment'], ['▁is', '▁due']]
    """
    cache: dict[bytes, tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]] = {}
    parts = []
    for word in range(len(words)):
        spelled = words.bytes_of(word)
        if spelled not in cache:
            cache[spelled] = _word_pieces(spelled, tokenizer)
        parts.append(cache[spelled])
    if not parts:
        return TokenPieces(np.zeros(words.tokens + 1, np.int64), np.empty(0, np.int32))
    # Put on one line, the words' bytes, the pieces and the spans all run forward, so that the pieces
    # of a span are those between the first that ends after it begins and the last that begins in it.
    counts = np.array([len(ids) for ids, _, _ in parts])
    base = np.repeat(words.offsets[:-1], counts)
    ids = np.concatenate([ids for ids, _, _ in parts])
    begin = np.concatenate([begin for _, begin, _ in parts]) + base
    end = np.concatenate([end for _, _, end in parts]) + base
    from_piece = np.searchsorted(end, words.span_start + words.offsets[words.span_word], side="right")
    to_piece = np.searchsorted(begin, words.span_end + words.offsets[words.span_word], side="left")
    lengths = np.maximum(to_piece - from_piece, 0)
    total = int(lengths.sum())
    # 0, 1, …, length − 1 of every span, one after another.
    within = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    per_row = np.bincount(words.span_row, weights=lengths, minlength=words.tokens).astype(np.int64)
    return TokenPieces(
        np.concatenate([[0], np.cumsum(per_row)]), ids[np.repeat(from_piece, lengths) + within]
    )


def _word_pieces(
    spelled: bytes, tokenizer: PieceTokenizer
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Ids and byte spans [k] within `spelled`, without the lone space and without pieces of no bytes."""
    text, text_start, text_end = decode_with_offsets(spelled)
    found = tokenizer.pieces_with_spans(text)
    ids, begin, end = np.array(found[0], np.int32), np.array(found[1], np.int64), np.array(found[2], np.int64)
    lone = np.array([tokenizer.piece(int(piece_id)) == LONE_SPACE for piece_id in ids], bool)
    keep = (begin < end) & ~lone
    ids, begin, end = ids[keep], begin[keep], end[keep]
    if text_start is not None and text_end is not None:
        begin, end = text_start[begin], text_end[end - 1]
    forward = (np.diff(begin) >= 0).all() and (np.diff(end) >= 0).all()
    if len(ids) and not (forward and begin[0] >= 0 and end[-1] <= len(spelled)):
        raise ValueError(f"the tokenizer's spans of {text!r} do not run forward within the word")
    return ids, begin, end
