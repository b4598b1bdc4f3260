from __future__ import annotations

import io

import polars as pl
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.memory.ownership import tabulate
from inkplex_data.memory.pieces import PieceTokenizer, decode_with_offsets, token_pieces
from inkplex_data.memory.words import assemble_words
from inkplex_data.speech.tokenizer import TextTokenizer
from tests.memory.sessions import spans
from tests.memory.test_ownership import CHAIN

TOKENIZER = TextTokenizer.load()


def train_normalising() -> TextTokenizer:
    """A model that normalises as the released one does: `ﬁ` becomes f, i and a full-width `Ａ` becomes A."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the account is fine and the caller asks", "A B C of accounts 1 2 3"] * 20),
        model_writer=model,
        vocab_size=320,
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        byte_fallback=True,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return TextTokenizer(model.getvalue(), "normalising")


NORMALISING = train_normalising()


def table(*spelled: bytes) -> pl.DataFrame:
    """One call of tokens with these bytes."""
    rows = range(len(spelled))
    columns = {
        "call": [0 for _ in rows],
        "position": rows,
        "special": [False for _ in rows],
        "arrival_us": rows,
    }
    return pl.DataFrame({**columns, "bytes": pl.Series(spelled, dtype=pl.Binary)})


def pieces_of(*spelled: bytes, tokenizer: TextTokenizer = TOKENIZER) -> list[list[str]]:
    found = token_pieces(assemble_words(table(*spelled)), tokenizer)
    return [[tokenizer.piece(piece) for piece in ids] for ids in found.series().to_list()]


@given(st.binary(max_size=20) | st.text(max_size=8).map(str.encode))
def test_decoding_keeps_the_place_of_every_byte(spelled: bytes) -> None:
    text, starts, ends = decode_with_offsets(spelled)
    assert text == spelled.decode("utf-8", "replace")
    if starts is None or ends is None:
        assert text.encode() == spelled
        return
    assert len(starts) == len(ends) == len(text.encode())
    at = byte = 0
    for character in text:
        size = len(character.encode())
        begin, end = int(starts[byte]), int(ends[byte + size - 1])
        assert begin == at, "characters follow each other without a gap"
        assert spelled[begin:end].decode("utf-8", "replace") == character
        at, byte = end, byte + size
    assert at == len(spelled)


SPELLINGS = [
    "a",
    " the",
    "ing account",
    "é",
    "naïve ",
    "ﬁne",
    "Ａ①",
    "日本",
    "🙂",
    "\u00a0x",
    "\u200b",
    "e\u0301",
    "㌔",
    "İ",
]


@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("tokenizer", [TOKENIZER, NORMALISING], ids=["small", "normalising"])
@given(st.lists(st.sampled_from(SPELLINGS) | st.binary(max_size=3).map(bytes), max_size=6), st.data())
def test_pieces_are_those_that_overlap(
    tokenizer: TextTokenizer, parts: list[str | bytes], data: st.DataObject
) -> None:
    spelled = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(spelled)), max_size=8)))
    tokens = [spelled[a:b] for a, b in zip([0, *cuts], [*cuts, len(spelled)], strict=True)]
    words = assemble_words(table(*tokens))
    expected: list[list[int]] = [[] for _ in tokens]
    for word, row, start, end in spans(words):
        text, origin, after = decode_with_offsets(words.bytes_of(word))
        for piece, begin, stop in zip(*tokenizer.pieces_with_spans(text), strict=True):
            if begin == stop or tokenizer.piece(piece) == "▁":
                continue
            first = begin if origin is None else int(origin[begin])
            last = stop if after is None else int(after[stop - 1])
            if first < end and last > start:
                expected[row].append(piece)
    found = token_pieces(words, tokenizer)
    assert found.series().to_list() == expected
    assert found.series().to_list() == expected
    assert found.series().dtype == pl.List(pl.Int32)


def test_a_word_gives_its_pieces_to_the_tokens_that_hold_their_bytes() -> None:
    whole = [TOKENIZER.piece(piece) for piece in TOKENIZER.encode("the")]
    assert pieces_of(b" the") == [whole]
    # Two words in one token: the pieces of both, in order.
    assert pieces_of(b" the the") == [whole + whole]
    # Every token that a piece overlaps gets it.
    assert len(whole) == 1
    assert pieces_of(b" t", b"h", b"e", b" ") == [whole, whole, whole, []]


def test_a_character_split_over_tokens_gives_byte_pieces_to_their_own_token() -> None:
    face = "🙂".encode()
    names = [f"<0x{byte:02X}>" for byte in face]
    assert [TOKENIZER.piece(piece) for piece in TOKENIZER.encode("🙂")] == ["▁", *names]
    assert pieces_of(face[:1], face[1:3], face[3:]) == [names[:1], names[1:3], names[3:]]
    # The lone ▁ belongs to nobody, also where a space character came out of normalisation.
    assert pieces_of(face) == [names]


def test_normalisation_that_changes_the_length_keeps_bytes_with_their_tokens() -> None:
    ligature, wide = "ﬁ".encode(), "Ａ".encode()
    assert "ﬁ" not in "".join(NORMALISING.piece(piece) for piece in NORMALISING.encode("ﬁ"))
    # The pieces that hold f and i belong to every token that holds a byte of the ligature.
    split = pieces_of(ligature[:1], ligature[1:], b" ", tokenizer=NORMALISING)
    assert "".join(split[0]).lstrip("▁") == "fi"
    assert split == [split[0], split[0], []]
    # Six bytes became two: what follows is still found by its own bytes.
    after = pieces_of(wide, wide, b"3", tokenizer=NORMALISING)
    assert "".join(after[2]) == "3"
    # A no-break space becomes ▁, which belongs to nobody when it stands alone.
    assert "▁" not in pieces_of("a\u00a0".encode(), "\u00a0🙂".encode(), tokenizer=NORMALISING)[1]


def test_bytes_that_are_not_utf8_stay_in_place() -> None:
    found = pieces_of(b"\xff", b"a", b"\xc3", b"b")
    mark = [f"<0x{byte:02X}>" for byte in "\ufffd".encode()]
    assert found[0] == found[2] == mark
    assert "".join(found[1]) == "a"
    assert "".join(found[3]) == "b"


def test_tokens_without_words_have_no_pieces() -> None:
    assert pieces_of(b" ", b"\n") == [[], []]
    assert pieces_of() == []


def test_the_tokens_table_holds_the_pieces() -> None:
    with_pieces = tabulate(CHAIN, tokenizer=TOKENIZER)[0]
    expected = token_pieces(assemble_words(with_pieces), TOKENIZER)
    assert with_pieces["piece_ids"].to_list() == expected.series().to_list()
    assert with_pieces.schema == tabulate(CHAIN)[0].schema
    assert tabulate([], tokenizer=TOKENIZER)[0].schema == with_pieces.schema


def test_spans_that_run_backward_are_refused() -> None:
    class Backward:
        def pieces_with_spans(self, text: str) -> tuple[list[int], list[int], list[int]]:
            return [5, 6], [1, 0], [2, 1]

        def piece(self, piece_id: int) -> str:
            return "x"

    tokenizer: PieceTokenizer = Backward()
    with pytest.raises(ValueError, match="run forward"):
        token_pieces(assemble_words(table(b"ab")), tokenizer)
