from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.errors import CheckpointError
from inkplex_data.soma.tokens.soma_tokenizer import (
    DREAM,
    MODEL,
    PROTOCOL,
    SHA256,
    SOMA,
    STATE,
    TURN,
    UNKNOWN,
    USER,
    VOCABULARY,
    IncrementalDecoder,
    SomaTokenizer,
)

AWKWARD = [
    "a", " ", "  ", "\n", "\r\n", "\t", "\0", "\x1b", "\x7f", "\x85", "\xa0", "\u3000", "\u2581", "\u2581\u2581", "é", "e\u0301",
    "ﬁ", "日本", "😀", "\ufeff", "\ufffd", "\u2028", "<0x0A>", "<unk>", "the ", " the", *PROTOCOL,
]  # fmt: skip
texts = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=8), max_size=30).map("".join)
anything = st.binary(max_size=60) | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def tokenizer() -> SomaTokenizer:
    return SomaTokenizer.load()


def test_the_model_is_as_the_specification_has_it(tokenizer: SomaTokenizer) -> None:
    model = tokenizer._model
    assert model.vocab_size() == VOCABULARY == 8_192
    assert [model.id_to_piece(i) for i in (STATE, TURN, USER, SOMA, DREAM)] == list(PROTOCOL)
    assert all(model.is_control(i) for i in (STATE, TURN, USER, SOMA, DREAM))
    assert (model.bos_id(), model.eos_id(), model.pad_id(), model.unk_id()) == (-1, -1, -1, UNKNOWN)
    assert sum(model.is_byte(i) for i in range(VOCABULARY)) == 256
    pieces = [tokenizer._bytes_of(i) for i in range(262, VOCABULARY)]
    assert not any(b" " in piece[1:] for piece in pieces)
    assert not any(byte < 0x20 for piece in pieces for byte in piece)


def test_another_model_file_is_refused() -> None:
    data = bytearray(MODEL.read_bytes())
    data[-1] ^= 1
    with pytest.raises(CheckpointError, match="is not the one that soma's models are made with"):
        SomaTokenizer(bytes(data))


@given(anything)
def test_tokenizer_roundtrip_including_protocol_control_bytes_and_unicode(data: bytes) -> None:
    tokenizer = SomaTokenizer.load()
    ids = tokenizer.encode(data)
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == data
    assert tokenizer.piece_bytes[ids].sum() == len(data)
    assert not np.isin(ids, [UNKNOWN, STATE, TURN, USER, SOMA, DREAM]).any()


def test_protocol_pieces_stand_for_no_source_bytes(tokenizer: SomaTokenizer) -> None:
    spelled = "".join(PROTOCOL).encode()
    assert tokenizer.decode(tokenizer.encode(spelled)) == spelled
    ids = [
        USER,
        *tokenizer.encode(b" hi"),
        TURN,
        SOMA,
        *tokenizer.encode(b" you"),
        TURN,
        STATE,
        DREAM,
        UNKNOWN,
    ]
    assert tokenizer.decode(ids) == b" hi you"
    assert tokenizer.piece_bytes[[UNKNOWN, STATE, TURN, USER, SOMA, DREAM]].sum() == 0
    assert tokenizer.piece(TURN) == "<|turn|>"


@given(texts, st.data())
def test_a_text_cut_at_white_space_gives_the_same_tokens(text: str, data: st.DataObject) -> None:
    tokenizer = SomaTokenizer.load()
    source = text.encode("utf-8", "surrogatepass")
    cuts = [
        i
        for i in range(1, len(source))
        if source[i : i + 1] == b" " or source[i - 1 : i] in (b"\n", b"\t", b"\r")
    ]
    cut = data.draw(st.sampled_from(cuts)) if cuts else 0
    parts = [*tokenizer.encode(source[:cut]), *tokenizer.encode(source[cut:])]
    assert parts == tokenizer.encode(source).tolist()


@given(anything)
def test_incremental_decoding_including_byte_fallback(data: bytes) -> None:
    tokenizer = SomaTokenizer.load()
    ids = tokenizer.encode(data)
    assert "".join(IncrementalDecoder(tokenizer).text(ids)) == data.decode("utf-8", "replace")


def test_a_character_comes_with_the_last_of_its_bytes(tokenizer: SomaTokenizer) -> None:
    decoder = IncrementalDecoder(tokenizer)
    *early, last = tokenizer.encode("😀".encode()).tolist()
    assert len(early) == 3
    assert [decoder.push(i) for i in early] == ["", "", ""]
    assert decoder.push(last) == "😀"
    decoder.push(early[0])
    assert decoder.push(TURN) == ""  # a protocol piece neither ends nor breaks what is under way
    assert decoder.finish() == "\ufffd"
    assert decoder.push(int(tokenizer.encode(b"a")[0])) == "a"


def test_it_pickles_as_the_packaged_model(tokenizer: SomaTokenizer) -> None:
    assert pickle.loads(pickle.dumps(tokenizer)) is tokenizer
    assert tokenizer.sha256 == SHA256
