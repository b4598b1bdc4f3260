from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from inkplex_data.errors import StoreError
from inkplex_data.text_scores import SCORES, by_surprise, call_surprise, costly_words, outliers, read_scores
from tests.store.made import table

BITS = {"a": 2.0, "b": 2.2, "c": 1.8, "d": 2.1, "e": 9.0, "f": 0.2, "g": 1.9}


def made_scores(bits: dict[str, float] = BITS) -> pl.DataFrame:
    """Calls with a whole and an agent's side, which cost alike, and two words each."""
    ids = [call for call in bits for _ in range(2)]
    calls = table(
        SCORES,
        len(ids),
        level=["call"] * len(ids),
        call_id=ids,
        side=[None, "agent"] * len(bits),
        bits_per_byte=[bits[call] for call in ids],
    )
    words = table(
        SCORES,
        len(ids),
        level=["word"] * len(ids),
        call_id=ids,
        text=[f"{kind} of {call}" for call in bits for kind in ("cheap", "dear")],
        nats=[1.0, 7.0] * len(bits),
    )
    return pl.concat([calls, words])


def test_a_call_is_as_far_out_as_the_farthest_of_its_sides() -> None:
    found = call_surprise(made_scores())
    assert found.columns == [
        "call_id", "bits_per_byte", "agent_bits_per_byte", "caller_bits_per_byte", "deviation",
    ]  # fmt: skip
    assert found["call_id"].to_list() == list(BITS)
    assert found["caller_bits_per_byte"].is_null().all()
    # The median is 2.0, and the median distance from it 0.2.
    assert found["deviation"].to_list() == pytest.approx([(x - 2.0) / (1.4826 * 0.2) for x in BITS.values()])


def test_outliers_lie_to_both_sides_and_are_told_by_their_dearest_words() -> None:
    scores = made_scores()
    assert outliers(scores, 2)["call_id"].to_list() == ["e", "f"]
    assert outliers(scores, 99).height == len(BITS)
    assert costly_words(scores, "e") == ["dear of e", "cheap of e"]
    assert by_surprise(scores) == ["f", "c", "g", "a", "d", "b", "e"]


def test_where_most_calls_are_alike_any_other_is_infinitely_far() -> None:
    found = call_surprise(made_scores({"a": 1.0, "b": 1.0, "c": 1.0, "d": 2.0, "e": 0.5}))
    assert found["deviation"].to_list() == [0, 0, 0, float("inf"), -float("inf")]
    assert call_surprise(made_scores({})).height == 0


def test_a_call_without_bytes_has_no_place() -> None:
    scores = made_scores().with_columns(
        pl.when(pl.col("call_id") == "a").then(None).otherwise(pl.col("bits_per_byte")).alias("bits_per_byte")
    )
    assert outliers(scores, 99)["call_id"].to_list().count("a") == 0
    assert by_surprise(scores)[-1] == "a"


def test_a_file_of_scores_is_read_and_any_other_refused(tmp_path: Path) -> None:
    scores = made_scores()
    scores.write_parquet(tmp_path / "scores.parquet")
    assert read_scores(tmp_path / "scores.parquet").equals(scores)
    scores.drop("nats").write_parquet(tmp_path / "lacking.parquet")
    scores.with_columns(pl.col("nats").cast(pl.String)).write_parquet(tmp_path / "typed.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    for name, what in (
        ("lacking", "lacks nats"),
        ("typed", "nats"),
        ("text", "no file"),
        ("none", "No such file"),
    ):
        with pytest.raises(StoreError, match=what) as caught:
            read_scores(tmp_path / f"{name}.parquet")
        assert "inkplex-data soma score" in (caught.value.next_step or "")
