from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.memory.plan import plan_chunks

intervals = st.lists(st.tuples(st.integers(-2, 25), st.integers(-2, 25)), max_size=30)


def union(versions: list[tuple[int, int]], first: int, stop: int) -> int:
    return sum(any(start <= step < end for step in range(first, stop)) for start, end in versions)


def test_golden_sessions(golden_sessions: list[dict[str, Any]]) -> None:
    for case in golden_sessions:
        _, start, end, *_ = (
            zip(*case["expected_versions"], strict=True) if case["expected_versions"] else ((),) * 3
        )
        found = plan_chunks(start, end, steps=case["steps"], limit=case["plan_limit"])
        assert found.tolist() == case["expected_plan"], case["id"]


@given(intervals, st.integers(0, 25), st.integers(1, 12))
def test_chunks_are_greedy_and_exact(versions: list[tuple[int, int]], steps: int, limit: int) -> None:
    start = np.array([start for start, _ in versions], np.int32)
    end = np.array([end for _, end in versions], np.int32)
    plan = plan_chunks(start, end, steps=steps, limit=limit)
    assert plan.dtype == np.int64
    assert plan.shape[1] == 3
    assert [step for first, stop, _ in plan for step in range(first, stop)] == list(range(steps))
    for first, stop, size in plan.tolist():
        assert size == union(versions, first, stop)
        assert size <= limit or stop == first + 1
        assert stop == steps or union(versions, first, stop + 1) > limit


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="have 2 and 1 entries"):
        plan_chunks([0, 1], [2], steps=3)
    with pytest.raises(ValueError, match="whole steps"):
        plan_chunks([0.5], [2], steps=3)
    with pytest.raises(ValueError, match="limit ≥ 1"):
        plan_chunks([0], [2], steps=3, limit=0)
