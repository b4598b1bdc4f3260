"""Pieces of the tokens table against the bytes that the tokens spell."""

from __future__ import annotations

import io
import itertools
from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audit.piece_spelling import PieceSpelling
from inkplex_data.audit.token_tables import audit_tokens, word_of_row
from inkplex_data.errors import CausalityError
from inkplex_data.memory.pieces import token_pieces
from inkplex_data.memory.words import assemble_words
from inkplex_data.speech.tokenizer import TextTokenizer

TOKENIZER = TextTokenizer.load()
PIECES = [TOKENIZER.piece(index) for index in range(len(TOKENIZER))]


def table(
    spelled: list[bytes], special: list[bool] | None = None, tokenizer: TextTokenizer = TOKENIZER
) -> pl.DataFrame:
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
            **dict.fromkeys(("available_us", "ready_us", "source_us"), [None] * count),
            "rank": range(count),
        },
        schema_overrides={
            "media": pl.String,
            "bytes": pl.Binary,
            **dict.fromkeys(("available_us", "ready_us", "source_us"), pl.Int64),
        },
    )
    pieces = token_pieces(assemble_words(tokens), tokenizer).series()
    return tokens.with_columns(pl.Series("word_ix", word_of_row(tokens), dtype=pl.Int32), pieces)


def audit(tokens: pl.DataFrame) -> None:
    audit_tokens(tokens, spelling=PieceSpelling(PIECES), recording_id="task")


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
    audit_tokens(table(SPELLED), spelling=None, recording_id="task")


SPELT_ODDLY = [b"caf\xc3\xa9 \xe2\x82", b"\xac5 na\xc3", b"\xafve \xff", b"bill ok \xef\xac\x81", b"ne"]


@pytest.mark.parametrize("row", range(len(SPELT_ODDLY)))
def test_words_beyond_ascii_are_spelled_too(row: int) -> None:
    tokens = table(SPELT_ODDLY)
    audit(tokens)
    for wrong in ([7], [], None):
        other = pl.when(pl.col("row") == row).then(pl.lit(wrong, pl.List(pl.Int32))).otherwise(LISTS)
        with pytest.raises(CausalityError):
            audit(tokens.with_columns(other.alias("piece_ids")))


def test_one_word_has_the_same_pieces_each_time() -> None:
    """Another way to divide it spells it too, but the tokenizer takes one."""
    tokens = table([b"bill", b" bill"])
    (whole,) = {tuple(ids) for ids in tokens["piece_ids"]}
    letters = [PIECES.index(letter) for letter in "bill"]
    divided = pl.Series([letters, list(whole)], dtype=pl.List(pl.Int32))
    assert letters != list(whole)
    audit(tokens.with_columns(divided.alias("piece_ids")).head(1))
    with pytest.raises(CausalityError, match="as elsewhere"):
        audit(tokens.with_columns(divided.alias("piece_ids")))


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf"])
@settings(max_examples=40)
@given(words=st.lists(st.text(st.sampled_from("aBé①ﬁ\u00a0\u200bｔe\u0301"), min_size=1, max_size=6), min_size=1),
       cuts=st.lists(st.integers(0, 60), max_size=8))  # fmt: skip
def test_a_tokenizer_may_normalise(rule: str, words: list[str], cuts: list[int]) -> None:
    tokenizer = normalising(rule)
    spelled = " ".join(words).encode()
    tokens = table(_cut(spelled, [min(cut, len(spelled)) for cut in cuts]), tokenizer=tokenizer)
    spelling = PieceSpelling([tokenizer.piece(index) for index in range(len(tokenizer))])
    audit_tokens(tokens, spelling=spelling, recording_id="task")
    assert all(
        spelling.spells(word, ids) for word, ids in zip(words, tokenizer.encode_words(words), strict=True)
    )


@cache
def normalising(rule: str) -> TextTokenizer:
    """The small tokenizer as it would be with another normalisation."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the bill is eighty pounds", "cafe fine 1 t a b e"] * 20), model_writer=model,
        vocab_size=300, byte_fallback=True, normalization_rule_name=rule, hard_vocab_limit=False, pad_id=3,
        character_coverage=1.0, minloglevel=2,
    )  # fmt: skip
    return TextTokenizer(model.getvalue(), rule)
