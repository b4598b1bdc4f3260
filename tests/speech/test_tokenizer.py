from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import pickle
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.speech.tokenizer import SMALL_MODEL, TextTokenizer
from inkplex_data.speech.tokenizer_train import train_tokenizer

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ["hello my name is first bill the office fin 123 cafe agent roaming credit"] * 40 + [
    f"the quick brown fox office fine find half {number}" for number in range(200)
]


def train(**changed: object) -> bytes:
    model = io.BytesIO()
    options = {
        "sentence_iterator": iter(SENTENCES),
        "model_writer": model,
        "vocab_size": 330,
        "model_type": "unigram",
        "hard_vocab_limit": False,
        "byte_fallback": True,
        "unk_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "pad_id": 3,
        "num_threads": 1,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(**(options | changed))
    return model.getvalue()


@pytest.fixture(scope="module")
def small() -> TextTokenizer:
    return TextTokenizer.load()


@pytest.fixture(scope="module")
def nfkc() -> TextTokenizer:
    return TextTokenizer(train(normalization_rule_name="nfkc"), "nfkc")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_tokenizer", ROOT / "examples/train_tokenizer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spelled(tokenizer: TextTokenizer, text: str) -> list[tuple[str, bytes]]:
    """Each piece of `text` with the bytes that its span covers."""
    spans = tokenizer.pieces_with_spans(text)
    return [
        (tokenizer.piece(piece), text.encode()[start:end]) for piece, start, end in zip(*spans, strict=True)
    ]


def test_the_small_model_fits_the_text_stream(small: TextTokenizer) -> None:
    assert len(small) == 4_000
    assert SMALL_MODEL.stat().st_size < 100_000
    assert small.sha256 == hashlib.sha256(SMALL_MODEL.read_bytes()).hexdigest()
    assert [small.piece(i) for i in range(5)] == ["<unk>", "<s>", "</s>", "<pad>", "<0x00>"]


def test_the_script_makes_the_committed_model(script: ModuleType, small: TextTokenizer) -> None:
    text = script.made_text()
    assert text == script.made_text()
    made = train_tokenizer(text, pieces=script.PIECES)
    if sentencepiece.__version__ == script.TRAINED_WITH:
        assert made == SMALL_MODEL.read_bytes()
    again = TextTokenizer(made, "again")
    pieces = {again.piece(i) for i in range(len(again))}
    assert len(pieces & {small.piece(i) for i in range(len(small))}) > 0.95 * len(small)


def test_words_of_a_real_call_need_few_pieces_and_never_a_reserved_id(
    small: TextTokenizer, real_data: Path
) -> None:
    call = json.loads((real_data / "calls/Auto_Repairs_40_UTC_agent.json").read_text())
    words = [word for word, _, _ in call["alignments"]]
    encoded = small.encode_words(words)
    assert sum(map(len, encoded)) < 1.6 * len(words)
    assert all(ids and min(ids) > 3 for ids in encoded)
    for word, ids in zip(words, encoded, strict=True):
        assert small.decode(ids) == word.strip()


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_text_survives_and_no_piece_is_reserved(small: TextTokenizer, text: str) -> None:
    ids = small.encode(text)
    assert not set(ids) & {0, 1, 2, 3}
    # SentencePiece squeezes runs of spaces, and reads a literal ▁ as one.
    plain = " ".join(part for part in text.strip().replace("▁", " ").split(" ") if part)
    assert small.decode(ids) == plain


def test_white_space_around_a_word_does_not_matter_and_alone_gives_nothing(small: TextTokenizer) -> None:
    assert small.encode(" hello\n") == small.encode("hello") != []
    assert small.encode_words(["", " \t", "hello", "hello"]) == [[], [], *[small.encode("hello")] * 2]


def test_batches_equal_single_words_and_results_are_the_callers_own(small: TextTokenizer) -> None:
    words = ["refund", "£10", "refund", "Ωmega", "bill,"]
    encoded = small.encode_words(words)
    assert encoded == [small.encode(word) for word in words]
    encoded[0].append(-1)
    small.pieces_with_spans("refund").ids.append(-1)
    assert -1 not in small.encode("refund")
    assert -1 not in small.pieces_with_spans("refund").ids


def test_it_pickles_by_value(small: TextTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(small))
    assert copy.identity == small.identity
    assert copy.encode("roaming credit") == small.encode("roaming credit")


def test_half_a_surrogate_pair_is_refused(small: TextTokenizer) -> None:
    for run in (small.encode, small.pieces_with_spans):
        with pytest.raises(UsageError, match="surrogate"):
            run("a\ud800b")
    with pytest.raises(UsageError, match="no piece 4000"):
        small.piece(4_000)


def test_digits_are_single_pieces(small: TextTokenizer) -> None:
    assert [small.piece(i) for i in small.encode("x2024")][-4:] == ["2", "0", "2", "4"]


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        ({"byte_fallback": False}, ["byte pieces"]),
        ({"pad_id": -1}, ["id of pad is -1; the text stream needs 3"]),
        ({"unk_id": 3, "pad_id": 0, "byte_fallback": False}, ["id of unk is 3", "id of pad is 0", "byte"]),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_every_reason(
    changed: dict[str, object], faults: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        TextTokenizer(train(**changed), "theirs.model")
    assert len(caught.value.faults) == len(faults)
    for got, wanted in zip(caught.value.faults, faults, strict=True):
        assert wanted in got
    assert "theirs.model" in str(caught.value)


def test_more_pieces_than_text_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inkplex_data.speech.tokenizer.TEXT_CARD", 300)
    with pytest.raises(ConfigError, match="speech model has 300"):
        TextTokenizer.load()


def test_files_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.model"):
        TextTokenizer.load(tmp_path / "absent.model")
    with pytest.raises(ConfigError):
        TextTokenizer.load(tmp_path)
    for name, content in (
        ("empty", b""),
        ("text", b"not a model\n" * 40),
        ("cut", SMALL_MODEL.read_bytes()[:9_999]),
        ("damaged", SMALL_MODEL.read_bytes().replace("▁the".encode(), "▁th".encode() + b"\xff", 1)),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=name):
            TextTokenizer.load(tmp_path / name)


def test_training_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="260 pieces"):
        train_tokenizer(SENTENCES, pieces=260)
    with pytest.raises(UsageError, match="could not train"):
        train_tokenizer([], pieces=300)


def test_spans_of_plain_words(small: TextTokenizer) -> None:
    assert spelled(small, "orders.") == [("▁order", b"order"), ("s", b"s"), (".", b".")]
    assert spelled(small, "") == []
    # A word that does not begin with a known piece starts with a lone ▁, which stands for no byte.
    assert spelled(small, "日x")[0] == ("▁", b"")


def test_each_byte_piece_spans_its_byte(small: TextTokenizer, nfkc: TextTokenizer) -> None:
    for tokenizer in (small, nfkc):
        found = [(piece, data) for piece, data in spelled(tokenizer, "日é😀") if piece.startswith("<0x")]
        assert found
        for piece, data in found:
            assert data == bytes([int(piece[3:5], 16)])


@pytest.mark.parametrize("text", ["ﬁ", "①", "ｆ", "e\u0301", "…", "½", "㌀"])
def test_pieces_out_of_one_normalised_character_all_span_it(nfkc: TextTokenizer, text: str) -> None:
    before, after = text.encode(), "日".encode()
    spans = [data for _, data in spelled(nfkc, text + "日") if data]
    assert set(spans[:-3]) == {before}
    assert spans[-3:] == [after[:1], after[1:2], after[2:]]


letters = st.sampled_from(
    [*"abfino0 ", "ﬁ", "①", "ｆ", "é", "e\u0301", "½", "…", "日", "😀", "㌀", "²", "ﬄ", " "]
)
texts = st.lists(letters, max_size=9).map("".join)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_spans_cover_the_text_and_normalise_to_their_pieces(nfkc: TextTokenizer, text: str) -> None:
    source = text.encode()
    ids, starts, ends = nfkc.pieces_with_spans(text)
    assert ids == list(nfkc._model.encode(text))
    covered: set[int] = set()
    for piece_id, start, end in zip(ids, starts, ends, strict=True):
        piece = nfkc.piece(piece_id)
        assert 0 <= start <= end <= len(source)
        assert (start == end) == (piece == "▁")
        covered |= set(range(start, end))
        if not piece.startswith("<0x"):
            normal = unicodedata.normalize("NFKC", source[start:end].decode())
            assert piece.removeprefix("▁") in normal
        elif end - start > 1:
            assert (
                bytes([int(piece[3:5], 16)])
                in unicodedata.normalize("NFKC", source[start:end].decode()).encode()
            )
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    at = 0
    for character in text:
        size = len(character.encode())
        if not character.isspace():
            assert set(range(at, at + size)) <= covered
        at += size


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=12))
def test_without_normalisation_spans_are_the_pieces_bytes(small: TextTokenizer, text: str) -> None:
    word = "".join(text.split())
    joined = b""
    for piece, data in spelled(small, word):
        joined += data
        if piece.startswith("<0x") and len(piece) == 6:
            assert len(data) == 1
        else:
            assert data == piece.removeprefix("▁").encode()
    assert joined == word.encode()


@pytest.mark.parametrize("option", ["treat_whitespace_as_suffix", "no_dummy_prefix", "keep_spaces"])
def test_spans_with_other_treatments_of_space(option: str) -> None:
    changed: dict[str, dict[str, object]] = {
        "treat_whitespace_as_suffix": {"treat_whitespace_as_suffix": True},
        "no_dummy_prefix": {"add_dummy_prefix": False},
        "keep_spaces": {"remove_extra_whitespaces": False},
    }
    tokenizer = TextTokenizer(train(**changed[option]), option)
    assert b"".join(data for _, data in spelled(tokenizer, "officefine")) == b"officefine"
    assert b"".join(data for _, data in spelled(tokenizer, "a  fine")).replace(b" ", b"") == b"afine"


def test_the_cache_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inkplex_data.speech.tokenizer._CACHE_WORDS", 8)
    tokenizer = TextTokenizer.load()
    fresh: Callable[[str], list[int]] = TextTokenizer.load().encode
    for start in range(0, 60, 6):
        words = [f"word{number}" for number in range(start, start + 6)]
        assert tokenizer.encode_words(words) == [fresh(word) for word in words]
        assert len(tokenizer._ids_of) <= 8
    many = [f"w{number}" for number in range(30)]
    assert tokenizer.encode_words(many) == [fresh(word) for word in many]
