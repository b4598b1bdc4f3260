"""Units, pauses, gaps and overlaps against a plain count over every 10 ms."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.turns import (
    HUMAN_S_PER_MINUTE,
    turn_statistics,
    units,
    units_of_activity,
    words_per_minute,
)

STEP = 10_000


def ms(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, np.int64).reshape(-1, 2) * 1000


def test_a_silence_of_200_ms_ends_a_unit() -> None:
    assert units(ms((0, 300), (499, 600))).tolist() == ms((0, 600)).tolist()
    assert units(ms((0, 300), (500, 600))).tolist() == ms((0, 300), (500, 600)).tolist()
    assert (
        units(ms((500, 600), (0, 300), (100, 150), (700, 700))).tolist() == ms((0, 300), (500, 600)).tolist()
    )
    assert units([]).shape == (0, 2)


def test_a_conversation_by_hand() -> None:
    agent = ms((1_000, 3_000), (3_500, 5_000), (8_000, 9_000), (11_000, 14_000))
    caller = ms((5_400, 7_700), (8_500, 10_000), (12_000, 12_500))
    found = turn_statistics(agent, caller, 15_000_000)
    assert found.pauses_us.tolist() == [500_000]  # 3.0 to 3.5, the agent on both ends
    assert found.gaps_us.tolist() == [400_000, 300_000, 1_000_000]
    assert found.overlaps_us.tolist() == [500_000, 500_000]
    assert (found.caller_barge_ins, found.agent_barge_ins, found.backchannels) == (1, 0, 1)
    assert (found.agent_ipus, found.caller_ipus) == (4, 3)
    assert (found.agent_speech_us, found.caller_speech_us) == (7_500_000, 4_300_000)
    assert found.ratio(found.agent_speech_us) == 0.5


def test_nothing_said() -> None:
    found = turn_statistics(ms(), ms(), 0)
    assert found.ratio(0) == 0.0 and not len(found.gaps_us)
    assert words_per_minute(0, 5) is None and words_per_minute(3, 0) is None
    assert words_per_minute(3, 1_000_000) == 180.0


def test_the_human_figures_fill_a_minute() -> None:
    human = HUMAN_S_PER_MINUTE
    assert abs(human["ipu"] - human["overlap"] + human["pause"] + human["gap"] - 60) < 2


def by_steps(agent: np.ndarray, caller: np.ndarray) -> dict[str, list[int]]:
    """Runs of silence and of overlap, read off the two rows step by step."""
    found: dict[str, list[int]] = {"pause": [], "gap": [], "overlap": []}
    last: set[int] | None = None
    silence = overlap = 0
    for a, c in [*zip(agent, caller, strict=True), (False, False)]:
        now = {side for side, on in ((0, a), (1, c)) if on}
        if len(now) == 2:
            overlap += 1
        elif overlap:
            found["overlap"].append(overlap * STEP)
            overlap = 0
        if now and last is not None and silence:
            found["pause" if now & last else "gap"].append(silence * STEP)
        silence = 0 if now else silence + 1
        last = now or last
    return found


rows = st.lists(st.tuples(st.integers(20, 60), st.integers(1, 60)), max_size=6)


@settings(max_examples=200, deadline=None)
@given(rows, rows)
def test_against_a_count_of_every_step(agent: list[tuple[int, int]], caller: list[tuple[int, int]]) -> None:
    """Random units at least 200 ms apart, on both sides."""
    sides = []
    for runs in (agent, caller):
        row = np.zeros(800, bool)
        at = 0
        for silence, speech in runs:
            row[at + silence : at + silence + speech] = True
            at += silence + speech
        sides.append(row)
    found = turn_statistics(*(units_of_activity(row, STEP) for row in sides), 8_000_000)
    wanted = by_steps(*sides)
    assert found.pauses_us.tolist() == wanted["pause"]
    assert found.gaps_us.tolist() == wanted["gap"]
    assert found.overlaps_us.tolist() == wanted["overlap"]
    assert found.agent_speech_us == sides[0].sum() * STEP
    union = int((sides[0] | sides[1]).sum()) * STEP
    assert found.agent_speech_us + found.caller_speech_us - sum(wanted["overlap"]) == union
