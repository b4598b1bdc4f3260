from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.speech.interleave import Word, interleave
from inkplex_data.speech.tokenizer import TextTokenizer
from inkplex_data.trainer.evaluate.said_words import SpokenWord, repeated_phrases, spoken_words

PIECES = ["<unk>", "<s>", "</s>", "<pad>", "▁hel", "lo", "▁a", "▁", "<0xC3>", "<0xA9>", "."]


def test_words_begin_at_spaces_and_padding_does_not_end_them() -> None:
    found = spoken_words([3, 0, 4, 3, 5, 3, 6, 10, 99, -1], PIECES, first_frame=100)
    assert found == [SpokenWord("hello", 102, 105), SpokenWord("a.", 106, 108)]
    assert found[0].start_us == 102 * 80_000


def test_bytes_make_letters_and_lone_spaces_make_no_word() -> None:
    assert spoken_words([7, 8, 9, 7, 7], PIECES) == [SpokenWord("é", 0, 3)]
    assert [word.text for word in spoken_words([8, 4], PIECES)] == ["\ufffd", "hel"]
    assert spoken_words([3, 3, 0], PIECES) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["Hello", "naïve", "it's", "50€", "seventy-five", "ok."]), max_size=6))
def test_it_undoes_the_interleaver(said: list[str]) -> None:
    tokenizer = TextTokenizer.load()
    pieces = [tokenizer.piece(index) for index in range(len(tokenizer))]
    words = [
        Word(tokenizer.encode(text), at * 2_000_000, at * 2_000_000 + 500_000, "SPEAKER_MAIN")
        for at, text in enumerate(said)
    ]
    stream = interleave(words, 25 * len(said) + 1)
    found = spoken_words(stream.ids.tolist(), pieces)
    assert [word.text for word in found] == said
    assert [word.start for word in found] == [25 * at for at in range(len(said))]


def test_repeats_are_all_but_the_first() -> None:
    assert repeated_phrases(["I", "can", "do", "that,", "I", "can", "do", "that.", "I", "CAN", "do"]) == 5
    assert repeated_phrases(["no", "no", "no", "no", "no"]) == 2
    assert repeated_phrases(["one", "two", "three", "four"]) == 0
    assert repeated_phrases([]) == 0
