"""Audit of one recording's tokens table: orders, and which words and pieces each token belongs to.

Words are found again by splitting the bytes of every stretch between special tokens, not by the builder's
arithmetic on one long array.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from inkplex_data.errors import CausalityError

_WORD = re.compile(rb"[^\x09-\x0d\x20]+")


def audit_tokens(tokens: pl.DataFrame, *, pieces: pl.Series | None, recording_id: str) -> None:
    """Prove that a stored tokens table (`memory.tables.TOKENS`) follows from its own ids, bytes and arrivals.

    Checked are: rows in layout order, each place once; arrivals that never fall within a request; ranks;
    words; and pieces, which only tokens of words have and which `pieces`, the tokenizer's vocabulary (None
    where the store keeps none), contains.

    Raises CausalityError naming the recording, the row and the values.
    """
    call, position, arrival_us = (tokens[name].to_numpy() for name in ("call", "position", "arrival_us"))
    same = call[1:] == call[:-1]

    def fail(bad: np.ndarray, what: str) -> None:
        rows = np.flatnonzero(bad)
        if len(rows):
            raise CausalityError(what.format(row=int(rows[0]), next=int(rows[0]) + 1), where=recording_id)

    fail(tokens["row"].to_numpy() != np.arange(len(tokens)), "token row {row} is stored with another number")
    after = (call[1:] > call[:-1]) | (same & (position[1:] == position[:-1] + 1))
    fail(~after, "token row {next} does not follow row {row} in the order of requests and positions")
    fail(
        same & (arrival_us[1:] < arrival_us[:-1]),
        "token row {next} arrives before row {row}, which comes before it in the same request",
    )
    order = np.lexsort((position, call, arrival_us))
    rank = np.empty(len(tokens), np.int64)
    rank[order] = np.arange(len(tokens))
    fail(
        tokens["rank"].to_numpy() != rank, "token row {row} is stored with another place in the arrival order"
    )
    words = pl.Series(word_of_row(tokens), dtype=pl.Int32)
    fail(words.ne_missing(tokens["word_ix"]).to_numpy(), "token row {row} is stored with another word")
    listed = tokens["piece_ids"]
    counts = listed.list.len().fill_null(0)
    fail(
        (words.is_null() & (counts > 0)).to_numpy(),
        "token row {row} belongs to no word, but has pieces of the speech model's text",
    )
    if pieces is not None:
        outside = listed.list.eval((pl.element() < 0) | (pl.element() >= len(pieces))).list.any()
        fail(
            outside.fill_null(False).to_numpy(),
            "token row {row} has a piece that the tokenizer's vocabulary does not have",
        )


def word_of_row(tokens: pl.DataFrame) -> list[int | None]:
    """The first word that each token touches, counted through the recording; None where it touches none."""
    found: list[int | None] = [None] * len(tokens)
    word = 0
    stretch: list[tuple[int, bytes]] = []
    columns = zip(tokens["call"], tokens["special"], tokens["media"], tokens["bytes"], strict=True)
    previous = None
    for row, (call, special, medium, spelled) in enumerate(columns):
        if special or call != previous:
            word = _number(stretch, word, found)
            stretch = []
        previous = call
        if not special and medium is None and spelled:
            stretch.append((row, spelled))
    _number(stretch, word, found)
    return found


def _number(stretch: list[tuple[int, bytes]], word: int, found: list[int | None]) -> int:
    """Number the words of one stretch of tokens from `word` on; returns the next number."""
    ends = np.cumsum([len(spelled) for _, spelled in stretch])
    text = b"".join(spelled for _, spelled in stretch)
    for match in _WORD.finditer(text):
        first, last = np.searchsorted(ends, [match.start(), match.end() - 1], side="right")
        for row, _ in stretch[first : last + 1]:
            if found[row] is None:
                found[row] = word
        word += 1
    return word
