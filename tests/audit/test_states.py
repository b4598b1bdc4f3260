"""Stored states against their digests, against each other, and against the model that made them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import inkplex_data as ink
from inkplex_data.audit.states_sample import StatesSample, audit_states_sample
from inkplex_data.audit.stored_requests import audit_chain, request_rows, stored_requests
from inkplex_data.audit.stored_states import audit_states, audit_twin_states, distance
from inkplex_data.corpus.recordings.prefix_chains import prefix_chain
from inkplex_data.errors import CausalityError
from inkplex_data.memory.capture.state_bits import from_float32
from inkplex_data.memory.ownership import tabulate
from inkplex_data.pipeline import tools
from tests.audit.made import Audited, Bench
from tests.store.made import token_table

RANDOM = np.random.default_rng(0)
STATES = from_float32(RANDOM.standard_normal((150, 3, 8)).astype(np.float32))


def read(states: np.ndarray) -> Callable[[int, int], np.ndarray]:
    return lambda first, stop: states[first:stop]


def tokens(counts: tuple[int, ...] = (100, 50)) -> pl.DataFrame:
    """Requests that each begin with all of the one before."""
    total = sum(counts)
    call = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    return token_table(total).with_columns(call=pl.Series(call), media=pl.lit(None, pl.String))


def digests(states: np.ndarray, table: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "request": number,
            "rows": stop - first,
            "sha256": hashlib.sha256(states[first:stop].tobytes()).hexdigest(),
        }
        for number, first, stop in request_rows(table)
    ]


CHAIN = "[[0, null, 0], [1, 0, 100]]"


def audit(states: np.ndarray, made: list[dict[str, Any]] | None) -> None:
    audit_states(tokens(), read(states), made, recording_id="task")


def test_states_as_they_were_made_pass() -> None:
    audit(STATES, digests(STATES, tokens()))
    audit(STATES, None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.__setitem__((7, 1, 3), 0x7F80), "token row 7 has states that are not finite"),
        (
            lambda s: s.__setitem__((120, 2), 0x8000),
            "token row 120 has states that are zero throughout, in row 42",
        ),
        (lambda s: s.__setitem__(130, s[4]), "token row 130 has states that are those of row 4"),
        (
            lambda s: s.__setitem__((110, 0, 0), s[110, 0, 0] ^ 1),
            r"the states of request 1 \(token rows 100 to 149\)",
        ),
    ],
)
def test_states_that_were_not_made_are_named(change: Callable[[np.ndarray], None], named: str) -> None:
    changed = STATES.copy()
    change(changed)
    with pytest.raises(CausalityError, match=named):
        audit(changed, digests(STATES, tokens()))


def test_digests_of_other_requests_are_no_digests() -> None:
    with pytest.raises(CausalityError, match="not those of its requests"):
        audit(STATES, digests(STATES, tokens((50, 100))))


def test_twins_may_round_otherwise_and_no_more() -> None:
    other = STATES.copy()
    other[:100] ^= 1
    other[100:] = STATES[::-1][100:]
    fork_us = 100 * 1_000_000
    audit_twin_states((tokens(), read(STATES)), (tokens(), read(other)), fork_us=fork_us, twin="b")
    other[99] = STATES[98]
    with pytest.raises(CausalityError, match="token row 99 has other states than row 99 of 'b'"):
        audit_twin_states((tokens(), read(STATES)), (tokens(), read(other)), fork_us=fork_us, twin="b")


def test_distance_is_relative_to_a_row() -> None:
    assert distance(STATES[:5], STATES[:5]).tolist() == [0] * 5
    assert (distance(STATES[:5], STATES[5:10]) > 0.5).all()


def test_stored_requests_say_what_the_recording_said() -> None:
    """The chain and the tokens give the requests again, whose table is the one that is stored."""
    table = tokens().with_columns(position=pl.col("row"))
    requests = stored_requests(table, CHAIN, recording_id="task")
    assert [(one.call, one.cached, len(one.ids)) for one in requests] == [(0, None, 100), (1, (0, 100), 50)]
    again, _ = tabulate(requests)
    names = ["row", "call", "position", "token_id", "kind", "bytes", "special", "arrival_us", "rank"]
    assert again.select(names).equals(table.select(names).cast(dict(again.select(names).schema)))
    assert [list(one) for one in prefix_chain(requests)] == [[0, None, 0], [1, 0, 100]]
    audit_chain(table, CHAIN, recording_id="task")
    audit_chain(table, None, recording_id="task")


@pytest.mark.parametrize(
    ("chain", "named"),
    [
        ("[[0, null, 0], [1, 0, 90]]", "request 1 begins at position 100, after a prefix of 90 tokens"),
        ("[[0, null, 0]]", "it has tokens of request 1, which its prefix chain does not list"),
        ("[[0, null, 0], [1, 2, 100]]", "a prefix of request 2, which is not in the recording"),
    ],
)
def test_positions_that_the_chain_does_not_give_are_named(chain: str, named: str) -> None:
    with pytest.raises(CausalityError, match=named):
        audit_chain(tokens().with_columns(position=pl.col("row")), chain, recording_id="task")


def test_positions_after_a_prefix_that_nobody_has_are_named_without_a_chain() -> None:
    table = tokens().with_columns(position=pl.col("row") + 10 * (pl.col("call") == 1))
    with pytest.raises(CausalityError, match="request 1 begins at position 110"):
        audit_chain(table, None, recording_id="task")


def test_a_sample_of_states_is_what_the_model_computes(audited: Audited) -> None:
    with ink.open_store(audited.store) as store:
        sample = audit_states_sample(store, 12, calls=["late"], load=tools.inkling)
    assert (sample.tokens, sample.faults) == (12, [])
    assert sample.largest is not None and sample.largest < 0.01
    assert "states of 12 tokens computed again; the largest difference is" in sample.text()


def test_the_largest_difference_is_named_by_row_and_token() -> None:
    sample = StatesSample()
    sample.add(np.array([[0.0, 0.01, 0.0], [0.0, 0.0, 0.02]]), np.array([4, 7]), "task")
    sample.add(np.array([[0.015, 0.0, 0.0]]), np.array([1]), "other")
    assert (sample.tokens, sample.largest, sample.where) == (3, 0.02, "row 42 of token row 7 of task")
    sample.add(np.array([[0.5, np.nan, 0.0]]), np.array([3]), "other")
    assert sample.where == "row 34 of token row 3 of other", "what is no number is no small difference"


def test_rows_in_another_order_are_found_and_measured(audited: Audited, tmp_path: Any) -> None:
    bench = Bench.copy(audited.store, tmp_path / "store")
    bench.states("late-0000", lambda states: states[:, [1, 0, 2]])
    bench.mend()
    with ink.open_store(bench.root) as store:
        sample = audit_states_sample(store, 3, load=tools.inkling)
    assert sample.faults and sample.largest is not None and sample.largest > 0.05


def test_states_of_another_model_are_named(audited: Audited, tmp_path: Any) -> None:
    bench = Bench.copy(audited.store, tmp_path / "store")
    other = pl.col("states_identity").str.replace('"revision": *"[0-9a-f]+"', '"revision": "0000"')
    bench.change_table("recordings", lambda table: table.with_columns(other))
    bench.mend()
    with ink.open_store(bench.root) as store:
        faults = audit_states_sample(store, 3, load=tools.inkling).faults
    assert faults and all("its states are of the model 'small:0' (0000)" in fault.rule for fault in faults)
