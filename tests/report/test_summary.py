from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from inkplex_data.report.gather import store_summary
from inkplex_data.report.html import render_page
from inkplex_data.report.summary import StoreSummary, summarise
from inkplex_data.report.terminal_tables import (
    byte_count,
    render_calls,
    render_problems,
    render_summary,
)
from inkplex_data.store.format import CALLS, PREFIXES, PROBLEMS, RECORDINGS
from inkplex_data.store.reader import open_store
from tests.report.made import drawn
from tests.store.made import make_store, table


def calls_table() -> pl.DataFrame:
    return table(
        CALLS,
        3,
        call_id=["a", "b", "c [red]"],
        split=["train", "test", "train"],
        family=["f", "g", "f"],
        frames=[100, 300, 0],
        duration_us=[8_000_000, 24_000_000, 0],
        words=[5, 7, 0],
        versions=[1, 2, 0],
        words_dropped=[3, 1, 0],
        pieces_dropped=[2, 3, 0],
        pad_fraction=[0.9, 0.5, None],
        recording_id=["r", None, None],
    )


def problems_table() -> pl.DataFrame:
    rows = [
        ("a", "text-replaced", "repair"),
        ("a", "text-replaced", "repair"),
        ("b", "text-replaced", "repair"),
        ("a", "word-no-duration", "repair"),
        ("b", "word-outside-audio", "repair"),
        ("lost", "audio-mono", "error"),
        ("lost", "word-outside-audio", "repair"),
        ("a", "own-code", "info"),
    ]
    return table(
        PROBLEMS,
        len(rows),
        call_id=[row[0] for row in rows],
        code=[row[1] for row in rows],
        severity=[row[2] for row in rows],
        message=[f"message {number}" for number in range(len(rows))],
    )


@pytest.fixture
def summary() -> StoreSummary:
    return summarise(
        "a store",
        calls=calls_table(),
        problems=problems_table(),
        recordings=table(RECORDINGS, 2, recording_id=["r", "s"], tokens=[10, 20]),
        prefixes=table(PREFIXES, 1),
        description={"codec": {"id": "untrained:0", "untrained": True, "sha256": "ab" * 32}},
        bytes_by_part={"calls": 2048, "recordings": 1},
        complete=False,
    )


def test_counts(summary: StoreSummary) -> None:
    assert (summary.calls, summary.families, summary.recordings, summary.tokens, summary.prefixes) == (
        3,
        2,
        2,
        30,
        1,
    )
    assert summary.hours == pytest.approx(32 / 3600)
    assert summary.pad_fraction == pytest.approx((100 * 0.9 + 300 * 0.5) / 400)
    assert (summary.words, summary.words_dropped, summary.pieces_dropped) == (12, 4, 5)
    assert summary.refused == 1
    assert summary.splits.select("split", "calls", "families", "with_memory").rows() == [
        ("train", 2, 1, 1),
        ("test", 1, 1, 0),
    ]
    assert summary.problems.select("code", "severity", "calls", "count").rows() == [
        ("audio-mono", "error", 1, 1),
        ("text-replaced", "repair", 2, 3),
        ("word-outside-audio", "repair", 2, 2),
        ("word-no-duration", "repair", 1, 1),
        ("own-code", "info", 1, 1),
    ]
    assert len(summary.warnings) == 2


def test_the_terminal_shows_what_was_counted(summary: StoreSummary) -> None:
    shown = "\n".join(drawn(render_summary(summary)))
    for part in (
        "3, 1 refused",
        "2 with 30 tokens",
        "60.0% PAD",
        "4 words, 5 pieces of others",
        "word-no-duration 1, word-outside-audio 1, without a frame 2",
        "2.0 KiB",
        "untrained:0 (abab",
    ):
        assert part in shown
    assert "! no build has finished" in shown
    assert shown.index("audio-mono") < shown.index("text-replaced")
    assert "message 7" in shown, "a code without an entry in CODES shows a message"


def test_no_control_character_reaches_the_terminal() -> None:
    hostile = "\x1b[2J\x07\r\u202ex"
    calls = table(
        CALLS, 1, call_id=[hostile], family=[hostile], split=[hostile], recording_id=[hostile], duration_us=[1],
        words=[0], versions=[0],
    )  # fmt: skip
    problems = table(PROBLEMS, 1, call_id=[hostile], code=[hostile], severity=[hostile], message=[hostile])
    summary = summarise(
        hostile,
        calls=calls,
        problems=problems,
        recordings=table(RECORDINGS, 0),
        prefixes=table(PREFIXES, 0),
        description={"codec": {"id": hostile, "untrained": True}, "configuration": {"name": hostile}},
    )
    shown = "\n".join([*drawn(render_summary(summary)), *drawn(render_calls(calls))])
    assert not re.search(r"[\x07\x0d\u202e]|\x1b\[2J", shown)


def test_a_store_without_problems_says_so() -> None:
    empty = summarise(
        "s",
        calls=table(CALLS, 0),
        problems=table(PROBLEMS, 0),
        recordings=table(RECORDINGS, 0),
        prefixes=table(PREFIXES, 0),
    )
    assert empty.pad_fraction is None
    assert drawn(render_problems(empty)) == ["No problems."]
    assert drawn(render_summary(empty))[0] == "s"


def test_calls_are_one_line_each_and_what_is_left_out_is_said() -> None:
    lines = drawn(render_calls(calls_table(), limit=2))
    assert lines[-1] == "and 1 more call"
    assert "c [red]" in "\n".join(drawn(render_calls(calls_table())))


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (1536 * 2**20, "1.5 GiB"), (2**60, "1,024.0 PiB")],
)
def test_byte_counts(count: int, shown: str) -> None:
    assert byte_count(count) == shown


def test_the_summary_of_a_store_counts_its_bytes(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    with open_store(tmp_path / "store") as store:
        summary = store_summary(store)
    published = [
        path
        for path in (tmp_path / "store").glob("*/0*/**/*")
        if path.is_file() and path.name != "shard.json"
    ]
    assert sum(summary.bytes_by_part.values()) == sum(path.stat().st_size for path in published)
    assert summary.calls == 4
    assert summary.tokens == 150 + 71


def test_calls_are_counted_by_what_is_known_of_them() -> None:
    told = calls_table().with_columns(
        agent_origin=pl.Series(["synthetic", "synthetic", None], dtype=pl.String),
        caller_origin=pl.Series(["recorded", "recorded", None], dtype=pl.String),
        decisions=pl.Series([["speak", "quiet"], ["speak"], None], dtype=pl.List(pl.String)),
    )
    empty = (table(schema, 0) for schema in (PROBLEMS, RECORDINGS, PREFIXES))
    names = ("problems", "recordings", "prefixes")
    summary = summarise("t", calls=told, **dict(zip(names, empty, strict=True)))
    assert summary.groups.drop("hours").rows() == [
        ("origin", "synthetic, recorded", 2, 2),
        ("decision", "quiet", 1, 1),
        ("decision", "speak", 2, 2),
    ]
    shown = drawn(render_summary(summary))
    assert any(line.split()[:4] == ["origin", "synthetic,", "recorded", "2"] for line in shown)
    page = "".join(render_page(summary, told, ()))
    assert "<h2>Origins and targets</h2>" in page and "synthetic, recorded" in page
