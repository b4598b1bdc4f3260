from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from inkplex_data.errors import RecordingError
from inkplex_data.memory.token_order import arrival_order, arrival_rank, in_layout_order, layout_order
from tests.memory.sessions import token_tables


def test_layout_order_of_the_golden_sessions(golden_sessions: list[dict[str, Any]]) -> None:
    for case in golden_sessions:
        table = case["table"]
        order = layout_order(table["call"].to_numpy(), table["position"].to_numpy())
        assert order.tolist() == case["expected_layout"], case["id"]


@given(token_tables())
def test_arrival_order_breaks_ties_by_call_then_position(tokens: pl.DataFrame) -> None:
    table = in_layout_order(tokens)
    assert table.equals(tokens.sort("call", "position"))
    places = list(zip(table["arrival_us"], table["call"], table["position"], strict=True))
    order = arrival_order(table["arrival_us"].to_numpy())
    assert [places[row] for row in order] == sorted(places)
    rank = arrival_rank(table["arrival_us"].to_numpy())
    assert np.array_equal(rank[order], np.arange(len(table)))


def test_a_place_claimed_twice_is_refused() -> None:
    with pytest.raises(RecordingError, match="request 1, position 4") as caught:
        layout_order(np.array([1, 0, 1]), np.array([4, 4, 4]))
    assert caught.value.code == "recording-duplicate-token"


def test_a_table_without_a_column_or_with_nulls_is_refused() -> None:
    table = pl.DataFrame({"call": [0], "position": [None], "special": [False], "bytes": [b""]})
    with pytest.raises(ValueError, match="lacks arrival_us"):
        in_layout_order(table)
    with pytest.raises(ValueError, match="nulls in position"):
        in_layout_order(table.with_columns(arrival_us=pl.lit(0)))
