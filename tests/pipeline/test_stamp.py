"""Stamps: one spelling for each value, and an error for a value that has none."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.config.recipe import TextConfig
from inkplex_data.pipeline.stamp import canonical, stamp


@dataclass(frozen=True)
class Thing:
    size: int
    place: str = field(default="", compare=False)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": object()},
        [np.int64(3)],
        np.zeros(2),
        float("nan"),
        float("inf"),
        {1: "integer key"},
        {"a"},
        b"bytes",
        Thing,
        canonical,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_canonical_spelling_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match="a stamp cannot hold"):
        stamp("one", value)


def test_what_differs_differs_and_what_is_equal_is_equal() -> None:
    values = [None, 0, 1, 1.5, "", "1", [], [1], [[1]], {}, {"a": 1}, {"a": None}, True, Thing(1), Thing(2)]
    stamps = [stamp(value) for value in values]
    # JSON has one spelling for True and "true" alike only inside text, and none for a mapping and a dataclass.
    assert len(set(stamps)) == len(values)
    assert stamp({"a": 1, "b": 2}) == stamp({"b": 2, "a": 1})
    assert stamp((1, 2)) == stamp([1, 2])
    assert stamp(TextConfig()) != stamp(TextConfig(delay_s=0.1))
    assert stamp("\udcff") != stamp("\udcfe")


def test_fields_for_messages_do_not_count() -> None:
    assert stamp(Thing(1, "here")) == stamp(Thing(1, "there"))


def test_a_path_stands_for_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    absent = stamp(path)
    path.write_bytes(b"12")
    first = stamp(path)
    path.write_bytes(b"123")
    longer = stamp(path)
    os.utime(path, ns=(1, 1))
    assert len({absent, first, longer, stamp(path), stamp(str(path))}) == 5
    folder = stamp(tmp_path)
    (tmp_path / "b.wav").write_bytes(b"")
    assert stamp(tmp_path) == folder
