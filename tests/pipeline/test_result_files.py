"""Results as plain files: what comes back is what was saved, field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from inkplex_data.pipeline.result_files import load_field, load_result, save_result
from inkplex_data.problems import Problem


@dataclass(frozen=True)
class Part:
    name: str
    spans: tuple[tuple[int, float], ...]
    place: Path | None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    problems: list[Problem]
    codes: np.ndarray
    level: np.ndarray | None
    table: pl.DataFrame
    more: dict[str, np.ndarray] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)


def test_every_kind_of_field_comes_back(tmp_path: Path) -> None:
    whole = Whole(
        parts=(Part("ü\n", ((1, 0.1), (2**60, -1.5)), Path("a/b")), Part("", (), None)),
        problems=[Problem("c", "scan", "audio-bleed", "info", "", "–26 dB")],
        codes=np.arange(6, dtype=np.uint16).reshape(3, 2),
        level=None,
        table=pl.DataFrame({"a": [1, None], "b": [[1], []]}, schema={"a": pl.Int32, "b": pl.List(pl.Int32)}),
        more={"text": np.array([-1, 3], np.int32), "mask": np.array([7], np.uint8)},
        row={"text": None, "ratio": 0.1, "list": [1, 2]},
    )
    save_result(tmp_path, whole)
    back = load_result(tmp_path, Whole)
    assert (back.parts, back.problems, back.level, back.row) == (whole.parts, whole.problems, None, whole.row)
    assert back.codes.dtype == np.uint16 and np.array_equal(back.codes, whole.codes)
    assert back.table.equals(whole.table) and back.table.schema == whole.table.schema
    assert list(back.more) == ["text", "mask"]
    assert all(np.array_equal(back.more[key], value) for key, value in whole.more.items())
    assert load_field(tmp_path, Whole, "parts") == whole.parts
    assert not list(tmp_path.glob("*.pkl"))


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "codes.npy", np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        load_field(tmp_path, Whole, "codes")
