"""Pieces of the tokens table against the bytes that the tokens spell."""

from __future__ import annotations

import itertools

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audit.token_tables import audit_tokens, word_of_row
from inkplex_data.errors import CausalityError
from inkplex_data.memory.pieces import token_pieces
from inkplex_data.memory.words import assemble_words
from inkplex_data.speech.tokenizer import TextTokenizer

TOKENIZER = TextTokenizer.load()
PIECES = pl.Series([TOKENIZER.piece(index) for index in range(len(TOKENIZER))])


def table(spelled: list[bytes], special: list[bool] | None = None) -> pl.DataFrame:
    """The tokens of one request as a build stores them."""
    count = len(spelled)
    tokens = pl.DataFrame(
        {
            "row": range(count),
            "call": [0] * count,
            "position": range(count),
            "bytes": spelled,
            "special": special or [False] * count,
            "media": [None] * count,
            "arrival_us": [0] * count,
            "rank": range(count),
        },
        schema_overrides={"media": pl.String, "bytes": pl.Binary},
    )
    pieces = token_pieces(assemble_words(tokens), TOKENIZER).series()
    return tokens.with_columns(pl.Series("word_ix", word_of_row(tokens), dtype=pl.Int32), pieces)


def audit(tokens: pl.DataFrame) -> None:
    audit_tokens(tokens, pieces=PIECES, recording_id="task")


@given(
    st.text(st.sampled_from("abtl ~'\n.é😀0\x7f"), max_size=40)
    .map(str.encode)
    .flatmap(lambda text: st.lists(st.integers(0, len(text)), max_size=8).map(lambda cuts: _cut(text, cuts))),
    st.integers(0, 3),
)
def test_what_the_builder_stores_passes(spelled: list[bytes], special: int) -> None:
    audit(table(spelled, [index % 4 == special for index in range(len(spelled))]))


def _cut(text: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, *cuts, len(text)})
    return [text[begin:end] for begin, end in itertools.pairwise(at)]


SPELLED = [b"The pay", b"ment", b" of eighty", b" pounds", b" is", b" due to", b"day ~", b"."]
LISTS = pl.col("piece_ids")


@pytest.mark.parametrize(
    "change",
    [
        LISTS.shift(1),
        LISTS.shift(-1),
        LISTS.reverse(),
        pl.when(pl.col("row") == 3).then(pl.lit([], pl.List(pl.Int32))).otherwise(LISTS),
        pl.when(pl.col("row") == 3).then(LISTS.shift(-1)).otherwise(LISTS),
        pl.when(pl.col("row") == 2).then(LISTS.list.reverse()).otherwise(LISTS),
        pl.when(pl.col("row") == 4).then(LISTS.list.concat(LISTS)).otherwise(LISTS),
        pl.when(pl.col("row") == 1).then(LISTS.list.head(0)).otherwise(LISTS),
        pl.when(pl.col("row") == 3).then(None).otherwise(LISTS),
        pl.when(pl.col("row") == 0).then(LISTS.list.head(1)).otherwise(LISTS),
    ],
    ids=[
        "later",
        "earlier",
        "reversed",
        "emptied",
        "of a later word",
        "exchanged",
        "twice",
        "not shared",
        "null",
        "cut",
    ],
)
def test_pieces_that_spell_something_else_are_named(change: pl.Expr) -> None:
    tokens = table(SPELLED)
    audit(tokens)
    with pytest.raises(CausalityError, match=r"token row \d has (the|more) pieces"):
        audit(tokens.with_columns(change.alias("piece_ids")))


def test_a_vocabulary_of_its_own_is_no_fault() -> None:
    audit_tokens(table(SPELLED), pieces=None, recording_id="task")


def test_words_that_are_normalised_are_left_out() -> None:
    tokens = table([b"caf\xc3\xa9 ", b"bill"])

    def changed(row: int) -> pl.DataFrame:
        wrong = pl.when(pl.col("row") == row).then(pl.lit([7], pl.List(pl.Int32))).otherwise(LISTS)
        return tokens.with_columns(wrong.alias("piece_ids"))

    audit(changed(0))
    with pytest.raises(CausalityError):
        audit(changed(1))
