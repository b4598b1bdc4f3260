"""The one reader of JSON: what it takes, what it refuses, and that each refusal is one of the family."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.jsontext import KEY_TWICE, LIMIT, MOST_DEPTH, numbered_lines, parse_json
from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import ConfigError
from inkplex_data.faults import FaultError
from inkplex_data.reading import read_bounded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@given(VALUES, st.booleans())
def test_what_json_spells_comes_back(value: Any, words: bool) -> None:
    assert parse_json(json.dumps(value), words=words) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def nested(levels: int) -> str:
    return '[{"a":' * (levels // 2) + "[" * (levels % 2) + "]" * (levels % 2) + "}]" * (levels // 2)


@pytest.mark.parametrize(
    ("text", "rule", "code"),
    [
        ('{"a": {"b": 1, "b": 2}}', "gives the key 'b' twice", KEY_TWICE),
        (nested(MOST_DEPTH + 1).replace(":}", ":0}"), "nested more than 100 levels", LIMIT),
        ("[" * 100_000 + "]" * 100_000, "nested more than 100 levels", LIMIT),
        ("9" * 5_000, "more than 40 digits", LIMIT),
        ("-" + "9" * 41, "more than 40 digits", LIMIT),
        ("1e999", "too large", ""),
        ("[NaN]", "no NaN", ""),
        ("[-Infinity]", "no NaN", ""),
        (r'{"a": ["x", "\ud83d"]}', "/a/1 holds half a surrogate pair", ""),
        (r'{"\uDE00": 1}', "holds half a surrogate pair", ""),
        ('{"a": 1', "at character 8", ""),
        ("", "is not JSON", ""),
    ],
)
def test_what_is_refused_and_why(text: str, rule: str, code: str) -> None:
    with pytest.raises(FaultError, match=rule) as refused:
        parse_json(text.encode())
    assert refused.value.faults[0].code == code
    assert len(str(refused.value)) < 300


def test_whole_pairs_and_the_deepest_nesting_pass() -> None:
    assert parse_json(r'"\ud83d\ude00"') == "😀"
    deepest = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert json.dumps(parse_json(deepest)) == deepest


def test_transcripts_keep_numbers_that_their_words_are_dropped_for() -> None:
    assert parse_json("[1e999, -Infinity]", words=True) == [float("inf"), float("-inf")]
    assert parse_json("9" * 5_000, words=True) == float("inf")
    assert parse_json(r'"\ud800"', words=True) == "\ud800"
    with pytest.raises(FaultError, match="twice"):
        parse_json('{"a": NaN, "a": NaN}', words=True)


@pytest.mark.parametrize("read", [read_bounded, lambda path: list(numbered_lines(path))])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(OSError, match="pipe or device"):
        read(tmp_path / "pipe.json")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[" * 5_000, "\udcff", "9" * 5_000 + "x"])
def test_a_model_s_configuration_is_refused_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        model_config(tmp_path, where="here", next_step="Go on.")
