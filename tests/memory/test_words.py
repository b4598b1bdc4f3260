from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given

from inkplex_data.memory.tables import NEVER_US
from inkplex_data.memory.words import Words, assemble_words
from tests.memory.sessions import slow_words, spans, token_tables


def table(*tokens: tuple[int, bytes]) -> pl.DataFrame:
    """Tokens (call, bytes); bytes that begin with `<` are a special token, with `[` a placeholder."""
    return pl.DataFrame(
        {
            "call": [call for call, _ in tokens],
            "position": list(range(len(tokens))),
            "special": [spelled.startswith(b"<") for _, spelled in tokens],
            "media": ["audio" if spelled.startswith(b"[") else None for _, spelled in tokens],
            "bytes": [spelled for _, spelled in tokens],
            "arrival_us": list(range(len(tokens))),
        },
        schema_overrides={"bytes": pl.Binary, "media": pl.String},
    )


def rebuilt(words: Words) -> list[dict]:
    """The words in the shape of the step-by-step reference."""
    result = [
        {
            "call": int(request),
            "text": words.bytes_of(word),
            "rows": {},
            "completer": int(words.completer[word]),
        }
        for word, request in enumerate(words.request)
    ]
    for word, row, start, end in spans(words):
        result[word]["rows"][row] = (start, end)
    assert [min(word["rows"]) for word in result] == words.first.tolist()
    return result


def spelled(words: Words) -> list[bytes]:
    return [words.bytes_of(word) for word in range(len(words))]


def test_golden_sessions(golden_sessions: list[dict[str, Any]]) -> None:
    def key(word: dict) -> tuple:
        return word["call"], sorted(word["rows"].items()), word["text"], word["completer"]

    for case in golden_sessions:
        expected = [
            {
                **word,
                "text": bytes.fromhex(word["text"]),
                "rows": {int(row): tuple(span) for row, span in word["rows"].items()},
            }
            for word in case["expected_words"]
        ]
        found = rebuilt(assemble_words(case["table"]))
        assert sorted(found, key=key) == sorted(expected, key=key), case["id"]


@given(token_tables())
def test_equals_the_reading_byte_by_byte(tokens: pl.DataFrame) -> None:
    words = assemble_words(tokens)
    assert rebuilt(words) == slow_words(tokens.sort("call", "position").to_dicts())
    touched = {row: word for word, row in reversed(list(zip(words.span_word, words.span_row, strict=True)))}
    assert words.word_of_row().tolist() == [touched.get(row, -1) for row in range(len(tokens))]


def test_a_special_token_ends_a_word_and_a_placeholder_does_not() -> None:
    words = assemble_words(table((0, b"ab"), (0, b"[sound here]"), (0, b"c"), (0, b"<end of x>"), (0, b"d")))
    assert spelled(words) == [b"abc", b"d"]
    assert words.completer.tolist() == [3, 4]
    assert spans(words) == [(0, 0, 0, 2), (0, 2, 2, 3), (1, 4, 0, 1)]


def test_words_do_not_cross_calls_and_the_last_token_completes() -> None:
    words = assemble_words(table((0, b"bill"), (0, b""), (1, b"ing ")))
    assert spelled(words) == [b"bill", b"ing"]
    assert words.completer.tolist() == [1, 2]


def test_only_ascii_whitespace_splits_and_bad_bytes_are_kept() -> None:
    words = assemble_words(table((0, "a\u00a0b\u2003c".encode()), (0, b"\xff\x1f\x0bd\r")))
    assert spelled(words) == ["a\u00a0b\u2003c".encode() + b"\xff\x1f", b"d"]


def test_no_words_at_all() -> None:
    for tokens in (table(), table((0, b" "), (0, b"<s>"), (0, b""))):
        words = assemble_words(tokens)
        assert len(words) == 0
        assert words.word_of_row().tolist() == [-1] * len(tokens)
        assert words.whole_limits(tokens).rows() == [(NEVER_US, -1)] * len(tokens)
