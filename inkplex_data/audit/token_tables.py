"""Audit of one recording's tokens table: orders, and which words and pieces each token belongs to.

Words are found again by splitting the bytes of every stretch between special tokens, not by the builder's
arithmetic on one long array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from inkplex_data.audit.piece_spelling import Part, PieceSpelling
from inkplex_data.errors import CausalityError

_WORD = re.compile(rb"[^\x09-\x0d\x20]+")


def audit_tokens(tokens: pl.DataFrame, *, spelling: PieceSpelling | None, recording_id: str) -> None:
    """Prove that a stored tokens table (`memory.tables.TOKENS`) follows from its own ids, bytes and arrivals.

    Checked are: rows in layout order, each place once; arrivals that never fall within a request, are the later of
    availability and delivery, and follow what they tell of; ranks;
    words; and pieces, which only tokens of words have, and which spell the words whose bytes the tokens hold
    (`spelling`: of the tokenizer's vocabulary, None where the store keeps none).

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
    later = pl.max_horizontal("available_us", "ready_us")
    clocks = tokens.select(
        arrival=(pl.col("arrival_us") != later) & pl.col("available_us").is_not_null(),
        source=pl.col("source_us") > pl.col("available_us"),
    ).fill_null(False)
    fail(
        clocks["arrival"].to_numpy(),
        "token row {row} does not arrive when it is both available and delivered",
    )
    fail(clocks["source"].to_numpy(), "token row {row} was available before what it tells of happened")
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
    if spelling is not None:
        outside = listed.list.eval((pl.element() < 0) | (pl.element() >= len(spelling.pieces))).list.any()
        fail(
            outside.fill_null(False).to_numpy(),
            "token row {row} has a piece that the tokenizer's vocabulary does not have",
        )
        _audit_pieces(tokens, spelling, recording_id)


def word_of_row(tokens: pl.DataFrame) -> list[int | None]:
    """The first word that each token touches, counted through the recording; None where it touches none."""
    found: list[int | None] = [None] * len(tokens)
    for word, (parts, _) in enumerate(_words(tokens)):
        for row, _, _ in parts:
            if found[row] is None:
                found[row] = word
    return found


def _words(tokens: pl.DataFrame) -> Iterator[tuple[list[Part], bytes]]:
    """Every word in its order: its tokens and its bytes."""
    stretch: list[tuple[int, bytes]] = []
    columns = zip(tokens["call"], tokens["special"], tokens["media"], tokens["bytes"], strict=True)
    previous = None
    for row, (call, special, medium, spelled) in enumerate(columns):
        if special or call != previous:
            yield from _words_of(stretch)
            stretch = []
        previous = call
        if not special and medium is None and spelled:
            stretch.append((row, spelled))
    yield from _words_of(stretch)


def _words_of(stretch: list[tuple[int, bytes]]) -> Iterator[tuple[list[Part], bytes]]:
    """The words of one stretch of tokens."""
    ends = np.cumsum([len(spelled) for _, spelled in stretch])
    text = b"".join(spelled for _, spelled in stretch)
    for match in _WORD.finditer(text):
        start, stop = match.span()
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        parts = []
        for place in range(int(first), int(last) + 1):
            row, spelled = stretch[place]
            begin, end = int(ends[place]) - len(spelled), int(ends[place])
            parts.append(Part(row, max(begin, start) - start, min(end, stop) - start))
        yield parts, match.group()


def _audit_pieces(tokens: pl.DataFrame, spelling: PieceSpelling, recording_id: str) -> None:
    """Pieces spell what the tokens do, in the tokens' own order, and the same word has the same pieces each time."""
    lists = [listed or [] for listed in tokens["piece_ids"].to_list()]
    used = [0] * len(lists)
    for parts, spelled in _words(tokens):
        row = spelling.misfit(spelled, parts, lists, used)
        if row is not None:
            what = (
                f"token row {row} has the pieces {spelling.names(lists[row])}, which do not spell its part of "
                f"{spelled.decode(errors='replace')!r} as elsewhere"
            )
            raise CausalityError(what, where=recording_id)
    for row, listed in enumerate(lists):
        if used[row] != len(listed):
            what = f"token row {row} has more pieces than its words: {spelling.names(listed)}"
            raise CausalityError(what, where=recording_id)
