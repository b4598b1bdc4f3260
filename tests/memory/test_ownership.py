from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from inkplex_data.errors import RecordingError
from inkplex_data.memory.ownership import Ownership, Segment, token_table
from inkplex_data.problems import CODES
from inkplex_data.store.format import KINDS, TOKENS


@dataclass
class Asked:
    """A request of three-letter tokens that arrive one µs after another."""

    call: int
    arrival: list[int]
    cached: tuple[int, int] | None = None
    line: int = 0
    kind_name: str = "reply"
    media: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.arrival)
        self.line = self.line or self.call + 2
        self.ids: NDArray[np.int32] = np.arange(count, dtype=np.int32) + 100 * self.call
        self.kind: NDArray[np.uint8] = np.full(count, KINDS.index(self.kind_name), np.uint8)
        self.bytes = [f" t{self.call}".encode()] * count
        self.arrival_us: NDArray[np.int64] = np.array(self.arrival, np.int64)
        self.special: NDArray[np.bool_] = np.zeros(count, bool)
        self.media = self.media or [None] * count


CHAIN = [
    Asked(0, [0, 0, 5], kind_name="setup"),
    Asked(1, [6, 7], cached=(0, 2)),
    Asked(2, [9], cached=(1, 3)),
    Asked(5, [9, 9], cached=(2, 4)),
    Asked(6, [20], cached=(2, 1)),
    Asked(7, [], cached=(6, 2)),
]


def test_prefixes_resolve_through_chains() -> None:
    ownership = Ownership(CHAIN)
    assert ownership.segments(0) == (Segment(0, 0, 3),)
    assert ownership.segments(2) == (Segment(0, 0, 2), Segment(1, 2, 3), Segment(2, 3, 4))
    assert ownership.segments(5)[-1] == Segment(5, 4, 6)
    assert ownership.segments(6) == (Segment(0, 0, 1), Segment(6, 1, 2))
    assert ownership.segments(7) == (Segment(0, 0, 1), Segment(6, 1, 2))
    assert [ownership.owner_of(5, position) for position in range(6)] == [0, 0, 1, 2, 5, 5]
    with pytest.raises(IndexError, match="4 positions, not 5"):
        ownership.owner_of(2, 4)


def test_each_computed_token_once_in_layout_order() -> None:
    table = token_table(CHAIN)
    assert table.schema == {name: dtype for name, dtype in TOKENS.items() if name != "recording_ix"}
    assert table.select("call", "position").rows() == [
        *[(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (5, 4), (5, 5), (6, 1)]
    ]
    assert table["rank"].to_list() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert table["kind"].to_list()[:4] == ["setup", "setup", "setup", "reply"]
    assert table["word_ix"].to_list() == list(range(9))
    assert table["piece_ids"].null_count() == 9
    assert token_table([]).schema == table.schema


def test_lines_may_come_in_any_order_where_no_prefix_is_shared() -> None:
    table = token_table([Asked(1, [5], line=2, media=["audio"]), Asked(0, [7], line=3)])
    assert table["call"].to_list() == [0, 1]
    assert table["rank"].to_list() == [1, 0]
    assert table["media"].to_list() == [None, "audio"]
    assert table["word_ix"].to_list() == [0, None]


@pytest.mark.parametrize(
    ("requests", "code", "message"),
    [
        (
            [Asked(0, [1]), Asked(0, [2], line=9)],
            "recording-duplicate-call",
            r"r\.jsonl:9: call 0 is also on line 2",
        ),
        ([Asked(0, [1], cached=(3, 1))], "recording-prefix-unknown", "r.jsonl:2: .* prefix of call 3"),
        (
            [Asked(0, [1], cached=(1, 1)), Asked(1, [1], cached=(0, 1))],
            "recording-prefix-cycle",
            r"call 0 \(line 2\), call 1 \(line 3\), call 0 \(line 2\)",
        ),
        ([Asked(4, [1], cached=(4, 1))], "recording-prefix-cycle", r"call 4 \(line 6\), call 4 \(line 6\)"),
        (
            [Asked(0, [1, 2]), Asked(1, [3], cached=(0, 3))],
            "recording-prefix-too-long",
            r"r.jsonl:3: call 1 begins with 3 tokens of call 0 \(line 2\), which has 2",
        ),
        (
            [Asked(0, [1], cached=(1, 1)), Asked(1, [1])],
            "recording-prefix-order",
            r"r.jsonl:2: call 0 comes before call 1 \(line 3\)",
        ),
        (
            [Asked(0, [1], line=3), Asked(1, [2], cached=(0, 1), line=2)],
            "recording-prefix-order",
            r"r.jsonl:2: call 1 comes before call 0 \(line 3\)",
        ),
        (
            [Asked(0, [1, 9]), Asked(1, [8], cached=(0, 2))],
            "recording-prefix-order",
            r"r.jsonl:3: call 1 has a token at 8 µs, before position 1 .* call 0 \(line 2\) at 9 µs",
        ),
        (
            [Asked(0, [1, 2]), Asked(1, [3, 5, 4], cached=(0, 2))],
            "recording-arrival-order",
            "r.jsonl:3: call 1: position 4 arrives at 4 µs, before position 3 at 5 µs",
        ),
    ],
)
def test_contradictions_name_both_places(requests: list[Asked], code: str, message: str) -> None:
    with pytest.raises(RecordingError) as caught:
        token_table(requests, source="r.jsonl")
    assert caught.value.code == code
    assert caught.value.next_step == CODES[code].remedy
    assert re.search(message, str(caught.value))


def test_a_request_may_share_a_prefix_that_arrived_in_time_although_its_owner_goes_on() -> None:
    table = token_table([Asked(0, [1, 2, 50]), Asked(1, [3], cached=(0, 2))])
    assert table.sort("rank").select("call", "position").rows() == [(0, 0), (0, 1), (1, 2), (0, 2)]


def test_a_long_chain_is_followed_without_recursion() -> None:
    requests = [Asked(0, [0])] + [Asked(call, [call], cached=(call - 1, call)) for call in range(1, 3000)]
    assert len(token_table(requests)) == 3000
    assert len(Ownership(requests).segments(2999)) == 3000
