"""Token bytes: whatever the vocabulary, the bytes of all tokens are the text's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.corpus.recordings.vocabulary import (
    END_MESSAGE,
    IMAGE,
    SPECIAL_IDS,
    ByteVocabulary,
    FileVocabulary,
    RanksVocabulary,
    Vocabulary,
    load_vocabulary,
)
from inkplex_data.errors import ConfigError, UsageError
from tests.corpus.tokenizers_made import byte_level_file, fallback_file

TEXTS = st.text(
    st.sampled_from(" \n\tabthe,.£é€漢😀▁Ġ") | st.characters(exclude_categories=["Cs"]), max_size=40
)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> list[Vocabulary]:
    folder = tmp_path_factory.mktemp("tokenizers")
    return [
        RanksVocabulary(),
        ByteVocabulary(),
        FileVocabulary(byte_level_file(folder / "byte_level.json")),
        FileVocabulary(fallback_file(folder / "fallback.json")),
    ]


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_bytes_of_all_tokens_are_the_text(vocabularies: list[Vocabulary], text: str) -> None:
    for vocabulary in vocabularies:
        tokens = vocabulary.encode(text)
        assert b"".join(spelled for _, spelled in tokens) == text.encode(), vocabulary.identity


def test_o200k_ids_are_those_of_the_public_vocabulary() -> None:
    """Ids of o200k that its documentation and tests quote."""
    vocabulary = RanksVocabulary()
    assert vocabulary.encode("hello world") == [(24912, b"hello"), (2375, b" world")]
    tokens = vocabulary.encode("😀🫠")
    assert len(tokens) > 2  # a character over several tokens
    assert b"".join(spelled for _, spelled in tokens).decode() == "😀🫠"


@pytest.mark.parametrize("text", ["<|end_message|>", "<|endoftext|>", "a <|message_user|> b"])
def test_markup_in_text_stays_text(vocabularies: list[Vocabulary], text: str) -> None:
    special = set(SPECIAL_IDS.values())
    for vocabulary in vocabularies[:3]:
        ids = {token for token, _ in vocabulary.encode(text)}
        specials = {vocabulary.special(name) for name in SPECIAL_IDS} | special
        assert not ids & specials


def test_special_tokens_come_from_the_file(vocabularies: list[Vocabulary]) -> None:
    ranks, _, byte_level, fallback = vocabularies
    assert ranks.special(END_MESSAGE) == 200_010
    assert byte_level.special(END_MESSAGE) not in (200_010, None)
    assert byte_level.special(IMAGE) == 200_054  # placeholders never reach the tokenizer
    with pytest.raises(ConfigError, match=r"no special token <\|end_message\|>"):
        fallback.special(END_MESSAGE)


def test_an_unused_slot_stands_for_a_special_token(tmp_path: Path) -> None:
    path = byte_level_file(tmp_path / "tokenizer.json")
    path.write_text(path.read_text().replace("<|content_xml|>", "<|unused_200024|>"))
    vocabulary = FileVocabulary(path)
    assert vocabulary.special("<|content_xml|>") == vocabulary.backend.token_to_id("<|unused_200024|>")


def test_a_fallback_byte_is_its_own_token(vocabularies: list[Vocabulary]) -> None:
    spelled = [piece for _, piece in vocabularies[3].encode("the €")]
    assert spelled == [b"the", b" ", b"\xe2", b"\x82", b"\xac"]


def test_what_is_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no tokenizer 'nowhere'"):
        load_vocabulary("nowhere")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"cannot be read as a tokenizer\.json"):
        load_vocabulary(str(tmp_path))
    assert load_vocabulary("bytes").encode("é") == [(0xC3, b"\xc3"), (0xA9, b"\xa9")]
    assert load_vocabulary(None).identity == "inkling-o200k"
