"""Turn statistics of one call as columns of the calls table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from inkplex_data.audio.activity import STEP_US
from inkplex_data.audio.turns import turn_statistics, units_of_activity, words_per_minute
from inkplex_data.clock import US_PER_S

TURN_COLUMNS: Final[dict[str, pl.DataType]] = {
    "turns_agent_ipus": pl.Int32(),
    "turns_caller_ipus": pl.Int32(),
    "pause_s": pl.Float32(),
    "gap_s": pl.Float32(),
    "overlap_s": pl.Float32(),
    "pauses_ms": pl.List(pl.Int32()),
    "gaps_ms": pl.List(pl.Int32()),
    "overlaps_ms": pl.List(pl.Int32()),
    "barge_ins": pl.Int32(),
    "agent_barge_ins": pl.Int32(),
    "backchannels": pl.Int32(),
    "agent_speech_ratio": pl.Float32(),
    "caller_speech_ratio": pl.Float32(),
    "words_per_minute": pl.Float32(),
}
"""Sums of the call, and the single lengths in order of time. `barge_ins` are the caller's. `words_per_minute` is
the agent's pace while it speaks, null where it has no words."""


def turn_row(
    activity: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], *, agent_words: int, duration_us: int
) -> dict[str, Any]:
    """The columns of TURN_COLUMNS from the speech activity of agent and caller, bool [steps of 10 ms]."""
    agent, caller = (units_of_activity(active, STEP_US) for active in activity)
    found = turn_statistics(agent, caller, duration_us)
    lengths = {"pause": found.pauses_us, "gap": found.gaps_us, "overlap": found.overlaps_us}
    return {
        "turns_agent_ipus": found.agent_ipus,
        "turns_caller_ipus": found.caller_ipus,
        **{f"{name}_s": float(of.sum()) / US_PER_S for name, of in lengths.items()},
        **{f"{name}s_ms": (of // 1_000).tolist() for name, of in lengths.items()},
        "barge_ins": found.caller_barge_ins,
        "agent_barge_ins": found.agent_barge_ins,
        "backchannels": found.backchannels,
        "agent_speech_ratio": min(found.ratio(found.agent_speech_us), 1.0),
        "caller_speech_ratio": min(found.ratio(found.caller_speech_us), 1.0),
        "words_per_minute": words_per_minute(agent_words, found.agent_speech_us),
    }
