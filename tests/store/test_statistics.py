"""Distributions over calls, against sums done by hand."""

from __future__ import annotations

import polars as pl
import pytest

from inkplex_data.audio.turns import HUMAN_GAP_MS
from inkplex_data.store.statistics import STATISTICS, call_statistics

CALLS = pl.DataFrame(
    {
        "duration_us": [30_000_000, 120_000_000],
        "pause_s": [1.0, 8.0],
        "gap_s": [0.5, 2.0],
        "agent_speech_ratio": [0.5, 0.25],
        "caller_speech_ratio": [0.25, 0.25],
        "words_per_minute": [None, 180.0],
        "pad_fraction": [0.6, 0.8],
        "gaps_ms": [[200, 300], [2_000]],
        "pauses_ms": pl.Series([[], []], dtype=pl.List(pl.Int32)),
    }
)


def test_by_hand() -> None:
    table = call_statistics(CALLS)
    assert table.schema == STATISTICS
    rows = {row["measure"]: row for row in table.iter_rows(named=True)}
    assert rows["pause"]["mean"] == pytest.approx((2.0 + 4.0) / 2)
    assert rows["gap"]["human"] == 4.2
    assert rows["speech, both sides"]["mean"] == pytest.approx((45 + 30) / 2)
    assert (rows["agent pace"]["count"], rows["agent pace"]["p50"]) == (1, 180.0)
    assert rows["text padding"]["human"] == 0.65
    gaps = rows["gap length"]
    assert (gaps["over"], gaps["count"], gaps["p50"], gaps["human"]) == ("gaps", 3, 300.0, HUMAN_GAP_MS)
    # Neither a measure without columns nor one without values has a row.
    assert "overlap" not in rows and "pause length" not in rows


def test_each_origin_is_measured_apart() -> None:
    told = CALLS.with_columns(
        call_id=pl.Series(["a", "b"]),
        agent_origin=pl.Series(["synthetic", None], dtype=pl.String),
        caller_origin=pl.Series([None, None], dtype=pl.String),
    )
    table = call_statistics(told)
    assert (
        table.filter(pl.col("origin").is_null()).drop("origin").equals(call_statistics(CALLS).drop("origin"))
    )
    (pause,) = table.filter(origin="synthetic, unknown", measure="pause").iter_rows(named=True)
    assert (pause["count"], pause["mean"]) == (1, pytest.approx(2.0))


def test_no_calls() -> None:
    assert call_statistics(CALLS.clear()).height == 0
