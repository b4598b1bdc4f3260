"""Columns of the calls table that say how two people took turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import inkplex_data as ink
from inkplex_data.pipeline.calls.turn_columns import TURN_COLUMNS, turn_row


def test_a_row_by_hand() -> None:
    """Ten seconds: the agent speaks at 1–3 s and 3.5–5 s, the caller at 4.5–6 s."""
    agent, caller = np.zeros(1_000, bool), np.zeros(1_000, bool)
    agent[100:300] = agent[350:500] = True
    caller[450:600] = True
    row = turn_row((agent, caller), agent_words=7, duration_us=10_000_000)
    assert row == {
        "turns_agent_ipus": 2,
        "turns_caller_ipus": 1,
        "pause_s": 0.5,
        "gap_s": 0.0,
        "overlap_s": 0.5,
        "pauses_ms": [500],
        "gaps_ms": [],
        "overlaps_ms": [500],
        "barge_ins": 1,
        "agent_barge_ins": 0,
        "backchannels": 0,
        "agent_speech_ratio": 0.35,
        "caller_speech_ratio": 0.15,
        "words_per_minute": 120.0,
    }
    assert row.keys() == TURN_COLUMNS.keys()


def test_a_build_fills_the_columns(built: Path) -> None:
    rows = ink.open_store(built).calls().select("call_id", *TURN_COLUMNS).collect()
    assert {name: rows.schema[name] for name in TURN_COLUMNS} == TURN_COLUMNS
    for row in rows.iter_rows(named=True):
        assert row["turns_agent_ipus"] > 0 and row["turns_caller_ipus"] > 0
        for name in ("pause", "gap", "overlap"):
            assert 1000 * row[f"{name}_s"] == pytest.approx(
                sum(row[f"{name}s_ms"]), abs=len(row[f"{name}s_ms"]) + 1
            )
        spoken_s = 2.5 * (row["agent_speech_ratio"] + row["caller_speech_ratio"])
        assert spoken_s - row["overlap_s"] + row["pause_s"] + row["gap_s"] <= 2.51
        assert row["words_per_minute"] == pytest.approx(60 * 7 / (2.5 * row["agent_speech_ratio"]), rel=1e-3)
