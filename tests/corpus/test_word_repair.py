"""Repair of words: what is changed and what is lost, and that nothing goes uncounted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.word_repair import (
    WORD_DROPS,
    RawWord,
    repair_words,
)
from inkplex_data.errors import CallRefused
from inkplex_data.problems import CODES, ProblemLog

DURATION_US = 10_000_000


def raw(
    text: str, start: object, end: object, speaker: str = "SPEAKER_MAIN", item: str = "words[0]"
) -> RawWord:
    return RawWord(text, start, end, speaker, None, item)


def repaired(
    words: Sequence[RawWord], duration_us: int = DURATION_US, strict: bool = False
) -> tuple[list[tuple[str, int, int]], list[str]]:
    log = ProblemLog("call", strict=strict)
    timed = repair_words(words, duration_us=duration_us, log=log)
    return [(word.text, word.start_us, word.end_us) for word in timed], [problem.code for problem in log]


def test_good_words_pass_untouched_and_exactly() -> None:
    words = [raw(" Hello,", 2.32, 2.5), raw("world", 2.5, 3)]
    assert repaired(words) == ([("Hello,", 2_320_000, 2_500_000), ("world", 2_500_000, 3_000_000)], [])


@pytest.mark.parametrize(
    ("start", "end", "expected", "code"),
    [
        (2.0, 2.0, None, "word-no-duration"),
        (3.0, 2.0, None, "word-no-duration"),
        (-2.0, -1.0, None, "word-outside-audio"),
        (-0.5, 0.0, None, "word-outside-audio"),
        (-0.02, 0.3, (0, 300_000), "word-clipped"),
        (10.0, 11.0, None, "word-outside-audio"),
        (9.0, 11.0, (9_000_000, 10_000_000), "word-clipped"),
        (math.nan, math.nan, None, "word-untimed"),
        (None, None, None, "word-untimed"),
        (True, False, None, "word-untimed"),
        ([1.0], {"s": 2}, None, "word-untimed"),
        ("soon", "later", None, "word-untimed"),
        (math.inf, -math.inf, None, "word-untimed"),
        (1e300, 1e301, None, "word-untimed"),
        (1.0, None, (1_000_000, 1_300_000), "word-end-missing"),
        (1.0, math.nan, (1_000_000, 1_300_000), "word-end-missing"),
        (None, 2.0, (1_700_000, 2_000_000), "word-start-missing"),
        (None, 0.1, (0, 100_000), "word-start-missing"),
    ],
)
def test_bad_times(start: object, end: object, expected: tuple[int, int] | None, code: str) -> None:
    words, codes = repaired([raw("word", start, end)])
    assert words == ([] if expected is None else [("word", *expected)])
    assert codes == [code]


def test_numbers_as_text_are_used_and_reported() -> None:
    words, codes = repaired([raw("word", "1.25", "1.5")])
    assert words == [("word", 1_250_000, 1_500_000)]
    assert codes == ["word-time-text", "word-time-text"]


def test_numpy_floats_are_numbers() -> None:
    words, codes = repaired([raw("word", np.float64(2.32), np.float32(2.5))])
    assert words == [("word", 2_320_000, 2_500_000)]
    assert codes == []


def test_missing_end_stops_at_the_next_word() -> None:
    words, codes = repaired([raw("a", 1.0, None), raw("b", 1.1, 1.4)])
    assert words == [("a", 1_000_000, 1_100_000), ("b", 1_100_000, 1_400_000)]
    assert codes == ["word-end-missing"]


def test_end_within_the_padded_last_frame_is_only_noted() -> None:
    words, codes = repaired([raw("word", 1.0, 1.2345)], duration_us=1_230_000)
    assert words == [("word", 1_000_000, 1_230_000)]
    assert codes == ["word-end-rounded"]
    assert repaired([raw("word", 1.0, 1.2345)], duration_us=1_230_000, strict=True)[0] == words


def test_blank_words_and_surrogates() -> None:
    words, codes = repaired([raw(" ", 1, 2), raw("", 1, 2), raw("caf\udce9", 3, 4), raw("日本語 🙂", 5, 6)])
    assert words == [("caf�", 3_000_000, 4_000_000), ("日本語 🙂", 5_000_000, 6_000_000)]
    assert codes == ["word-empty", "word-empty", "word-text-replaced"]


def test_untimed_punctuation_joins_the_word_before() -> None:
    words, codes = repaired([raw("costs", 1, 1.5), raw("?", None, None), raw("!", math.nan, None)])
    assert words == [("costs?!", 1_000_000, 1_500_000)]
    assert codes == ["word-punctuation-attached"] * 2
    words, codes = repaired([raw(",", None, None), raw("costs", 1, 1.5)])
    assert (words, codes) == ([("costs", 1_000_000, 1_500_000)], ["word-untimed"])
    words, codes = repaired([raw("costs", 1, 1.5, "A"), raw("?", None, None, "B")])
    assert (words, codes) == ([("costs", 1_000_000, 1_500_000)], ["word-untimed"])


def test_timed_punctuation_is_a_word_of_its_own() -> None:
    assert repaired([raw("-", 1, 1.5)]) == ([("-", 1_000_000, 1_500_000)], [])


def test_untimed_words_fill_a_short_gap_and_are_dropped_in_a_long_one() -> None:
    words = [raw("over", 1.0, 1.2), raw("$43,000", None, None), raw("or", None, None), raw("so", 2.0, 2.4)]
    log = ProblemLog("call")
    timed = repair_words(words, duration_us=DURATION_US, log=log, method="whisperx")
    assert [(word.text, word.start_us, word.end_us, word.method) for word in timed] == [
        ("over", 1_000_000, 1_200_000, "whisperx"),
        ("$43,000", 1_200_000, 1_600_000, "interpolated"),
        ("or", 1_600_000, 2_000_000, "interpolated"),
        ("so", 2_000_000, 2_400_000, "whisperx"),
    ]
    assert log.count("word-times-interpolated") == 2
    long_gap = [raw("over", 1.0, 1.2), raw("11", None, None), raw("so", 4.0, 4.4)]
    assert repaired(long_gap)[1] == ["word-untimed"]
    other_speaker = [raw("over", 1.0, 1.2), raw("11", None, None), raw("so", 1.5, 1.8, "CALLER")]
    assert repaired(other_speaker)[1] == ["word-untimed"]


def test_order_is_restored_stably() -> None:
    words = [raw("c", 3, 4), raw("a", 1, 2), raw("b1", 2, 3), raw("b2", 2, 2.5)]
    timed, codes = repaired(words)
    assert [word[0] for word in timed] == ["a", "b1", "b2", "c"]
    assert codes == ["words-out-of-order"]


def test_malformed_entries_are_counted() -> None:
    entry = RawWord("17", None, None, "SPEAKER_UNKNOWN", None, "alignments[4]", "is not a word")
    assert repaired([entry]) == ([], ["word-malformed"])


@pytest.mark.parametrize(
    "code", sorted(code for code in CODES if code.startswith("word-") and CODES[code].stage == "words")
)
def test_strict_refuses_what_is_a_repair(code: str) -> None:
    samples = {
        "word-malformed": [RawWord("17", None, None, "", None, "x", "is no word")],
        "word-empty": [raw(" ", 1, 2)],
        "word-text-replaced": [raw("\ud800", 1, 2)],
        "word-punctuation-attached": [raw("a", 1, 2), raw(".", None, None)],
        "word-untimed": [raw("a", None, None)],
        "word-times-interpolated": [raw("a", 1, 2), raw("b", None, None), raw("c", 2.5, 3)],
        "word-start-missing": [raw("a", None, 2)],
        "word-end-missing": [raw("a", 1, None)],
        "word-time-text": [raw("a", "1", 2)],
        "word-no-duration": [raw("a", 1, 1)],
        "word-outside-audio": [raw("a", 11, 12)],
        "word-clipped": [raw("a", 9, 12)],
        "word-end-rounded": [raw("a", 9, 9.995)],
    }
    duration_us = 9_990_000 if code == "word-end-rounded" else DURATION_US
    assert code in repaired(samples[code], duration_us)[1]
    if CODES[code].severity == "info":
        repaired(samples[code], duration_us, strict=True)
        return
    with pytest.raises(CallRefused) as caught:
        repaired(samples[code], duration_us, strict=True)
    assert caught.value.code == code
    assert caught.value.next_step


TIMES = st.one_of(
    st.none(),
    st.floats(-3, 14),
    st.integers(-2, 12),
    st.sampled_from(["1.5", "x", math.nan, math.inf, True, [], 1e40]),
)
WORDS = st.lists(
    st.builds(
        RawWord,
        text=st.one_of(st.sampled_from(["a", "£85", ".", "?!", " ", "", "é", "\ud800"]), st.text(max_size=4)),
        start=TIMES,
        end=TIMES,
        speaker=st.sampled_from(["SPEAKER_MAIN", "SPEAKER_01"]),
        confidence=st.none(),
        item=st.just("words"),
        fault=st.sampled_from([None, None, None, "is no word"]),
    ),
    max_size=12,
)


@given(WORDS, st.integers(1, DURATION_US))
def test_every_word_is_kept_or_counted(words: list[RawWord], duration_us: int) -> None:
    log = ProblemLog("call")
    timed = repair_words(words, duration_us=duration_us, log=log)
    gone = log.count(*WORD_DROPS, "word-empty", "word-punctuation-attached")
    assert len(timed) + gone == len(words)
    assert all(0 <= word.start_us < word.end_us <= duration_us for word in timed)
    assert [word.start_us for word in timed] == sorted(word.start_us for word in timed)
    for word in timed:
        word.text.encode()
    # What came out is good: repairing it again changes nothing.
    again = [
        RawWord(word.text, word.start_us / 1e6, word.end_us / 1e6, word.speaker, None, "w") for word in timed
    ]
    second = ProblemLog("call", strict=True)
    repeat = repair_words(again, duration_us=duration_us, log=second)
    assert [(w.text, w.start_us, w.end_us) for w in repeat] == [(w.text, w.start_us, w.end_us) for w in timed]
