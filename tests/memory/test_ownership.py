from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inkplex_data.clock import UNKNOWN_US
from inkplex_data.corpus.recordings.recording import RecordedRequest, read_recording
from inkplex_data.errors import RecordingError
from inkplex_data.grid import KINDS
from inkplex_data.memory.ownership import Ownership, tabulate
from inkplex_data.memory.tables import TOKENS
from inkplex_data.problems import CODES


def asked(
    call: int,
    arrival_us: list[int],
    cached: tuple[int, int] | None = None,
    *,
    line: int = 0,
    kind: str = "reply",
    media: int = 0,
) -> RecordedRequest:
    """A request of tokens ` t<call>` with these arrivals, on the line after its number unless told."""
    count = len(arrival_us)
    return RecordedRequest(
        call=call,
        cached=cached,
        ids=np.arange(count, dtype=np.int32) + 100 * call,
        kinds=np.full(count, KINDS.index(kind), np.uint8),
        bytes=[f" t{call}".encode()] * count,
        available_us=np.array(arrival_us, np.int64),
        ready_us=np.full(count, UNKNOWN_US, np.int64),
        source_us=np.full(count, UNKNOWN_US, np.int64),
        special=np.zeros(count, bool),
        media=np.full(count, media, np.uint8),
        states_path=None,
        line=line or call + 2,
    )


CHAIN = [
    asked(0, [0, 0, 5], kind="setup"),
    asked(1, [6, 7], cached=(0, 2)),
    asked(2, [9], cached=(1, 3)),
    asked(5, [9, 9], cached=(2, 4)),
    asked(6, [20], cached=(2, 1)),
    asked(7, [], cached=(6, 2)),
]


def test_clocks_that_nobody_gave_are_null() -> None:
    one = replace(
        asked(0, [3, 4, 9]),
        ready_us=np.array([UNKNOWN_US, 9, 5]),
        source_us=np.array([-7, UNKNOWN_US, UNKNOWN_US]),
    )
    tokens = tabulate([one])[0].select("available_us", "ready_us", "source_us", "arrival_us")
    assert tokens.rows() == [(3, None, -7, 3), (4, 9, None, 9), (9, 5, None, 9)]


def test_prefixes_resolve_through_chains() -> None:
    ownership = Ownership(CHAIN)
    for call, owners in {0: [0, 0, 0], 2: [0, 0, 1, 2], 5: [0, 0, 1, 2, 5, 5], 6: [0, 6], 7: [0, 6]}.items():
        assert ownership.context_tokens(call) == len(owners)
        assert [ownership.owner_of(call, position) for position in range(len(owners))] == owners
    with pytest.raises(IndexError, match="4 positions, not 5"):
        ownership.owner_of(2, 4)


def test_each_computed_token_once_in_layout_order() -> None:
    table = tabulate(CHAIN)[0]
    assert table.schema == {name: dtype for name, dtype in TOKENS.items() if name != "recording_ix"}
    assert table.select("call", "position").rows() == [
        *[(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (5, 4), (5, 5), (6, 1)]
    ]
    assert table["rank"].to_list() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert table["kind"].to_list()[:4] == ["setup", "setup", "setup", "reply"]
    assert table["word_ix"].to_list() == list(range(9))
    assert table["piece_ids"].null_count() == 9
    assert tabulate([])[0].schema == table.schema


def test_lines_may_come_in_any_order_where_no_prefix_is_shared() -> None:
    table = tabulate([asked(1, [5], line=2, media=1), asked(0, [7], line=3)])[0]
    assert table["call"].to_list() == [0, 1]
    assert table["rank"].to_list() == [1, 0]
    assert table["media"].to_list() == [None, "audio"]
    assert table["word_ix"].to_list() == [0, None]


@pytest.mark.parametrize(
    ("requests", "code", "message"),
    [
        (
            [asked(0, [1]), asked(0, [2], line=9)],
            "recording-call-twice",
            r"r\.jsonl:9: request 0 is also on line 2",
        ),
        ([asked(0, [1], cached=(3, 1))], "recording-prefix-unknown", "r.jsonl:2: .* prefix of request 3"),
        (
            [asked(0, [1], cached=(1, 1)), asked(1, [1], cached=(0, 1))],
            "recording-prefix-cycle",
            r"request 0 \(line 2\), request 1 \(line 3\), request 0 \(line 2\)",
        ),
        (
            [asked(4, [1], cached=(4, 1))],
            "recording-prefix-cycle",
            r"request 4 \(line 6\), request 4 \(line 6\)",
        ),
        (
            [asked(0, [1, 2]), asked(1, [3], cached=(0, 3))],
            "recording-prefix-too-long",
            r"r.jsonl:3: request 1 begins with 3 tokens of request 0 \(line 2\), which has 2",
        ),
        (
            [asked(0, [1], cached=(1, 1)), asked(1, [1])],
            "recording-prefix-order",
            r"r.jsonl:2: request 0 comes before request 1 \(line 3\)",
        ),
        (
            [asked(0, [1], line=3), asked(1, [2], cached=(0, 1), line=2)],
            "recording-prefix-order",
            r"r.jsonl:2: request 1 comes before request 0 \(line 3\)",
        ),
        (
            [asked(0, [1, 9]), asked(1, [8], cached=(0, 2))],
            "recording-prefix-order",
            r"r.jsonl:3: request 1 has a token at 8 µs, before position 1 .* request 0 \(line 2\) at 9 µs",
        ),
        (
            [asked(0, [1, 2]), asked(1, [3, 5, 4], cached=(0, 2))],
            "recording-arrival-order",
            "r.jsonl:3: request 1: position 4 arrives at 4 µs, before position 3 at 5 µs",
        ),
    ],
)
def test_contradictions_name_both_places(requests: list[RecordedRequest], code: str, message: str) -> None:
    with pytest.raises(RecordingError) as caught:
        tabulate(requests, source="r.jsonl")[0]
    assert caught.value.code == code
    assert caught.value.next_step == CODES[code].remedy
    assert re.search(message, str(caught.value))


def test_a_request_may_share_a_prefix_that_arrived_in_time_although_its_owner_goes_on() -> None:
    table = tabulate([asked(0, [1, 2, 50]), asked(1, [3], cached=(0, 2))])[0]
    assert table.sort("rank").select("call", "position").rows() == [(0, 0), (0, 1), (1, 2), (0, 2)]


def test_a_long_chain_is_followed_without_recursion() -> None:
    requests = [asked(0, [0])] + [asked(call, [call], cached=(call - 1, call)) for call in range(1, 3000)]
    assert len(tabulate(requests)[0]) == 3000
    assert Ownership(requests).owner_of(2999, 0) == 0


def test_a_recording_file_becomes_a_table(tmp_path: Path) -> None:
    lines = [
        {"schema": "inkplex/recording@1", "recording": "r"},
        {
            "call": 0,
            "tokens": [
                {"id": 7, "kind": "setup", "text": "<|begin|>", "special": True, "at": 0},
                {"id": 8, "kind": "user", "media": "image", "at": 0, "ready_at": 0.5},
                {"id": 9, "kind": "user", "bytes_b64": "IMM=", "at": 0.5},
            ],
        },
        {
            "call": 1,
            "cached": {"call": 0, "tokens": 2},
            "tokens": [{"id": 3, "kind": "reply", "text": "ok", "at": 2.32}],
        },
    ]
    path = tmp_path / "recording.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = tabulate(list(read_recording(path)), source=path.name)[0]
    columns = ("position", "token_id", "kind", "bytes", "special", "media", "arrival_us", "word_ix")
    assert table.select(columns).rows() == [
        (0, 7, "setup", b"<|begin|>", True, None, 0, None),
        (1, 8, "user", b"", False, "image", 500_000, None),
        (2, 9, "user", b" \xc3", False, None, 500_000, 0),
        (2, 3, "reply", b"ok", False, None, 2_320_000, 1),
    ]
