"""Branches of one past: the same before the result arrives, to the version and to the word, and as the store has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inkplex_data.store.reader import Store
from inkplex_data.trainer.grounding.cases import Case, cases_of
from inkplex_data.trainer.grounding.runs import CaseRunner, branch_memory, first_difference
from tests.trainer.grounding.conftest import DELAY_US
from tests.trainer.made_store import RESULT_US, STARTS_US


@pytest.fixture(scope="module")
def cases(store: Store) -> dict[str, Case]:
    return {case.call.call_id: case for case in cases_of(store, "validation", delay_us=DELAY_US)}


def test_every_call_has_its_branches_and_a_twin_is_one_of_both(cases: dict[str, Case]) -> None:
    assert {name: [branch.name for branch in case.branches] for name, case in cases.items()} == {
        "call-003": ["unchanged", "delayed", "absent", "irrelevant", "none"],
        "call-004": ["unchanged", "delayed", "absent", "irrelevant", "none"],
        "call-010": ["unchanged", "delayed", "absent", "none", "other (call-011)"],
        "call-011": ["unchanged", "delayed", "absent", "none", "other (call-010)"],
    }
    for case in cases.values():
        assert case.fork_us == RESULT_US and case.fork_frame == 9
        (due,) = case.branches[0].due
        assert (due.text, due.arrival_us) == (case.call.words["text"][1], RESULT_US - STARTS_US)
        late = next(branch for branch in case.branches if branch.kind == "delayed")
        assert [one.arrival_us - due.arrival_us for one in late.due] == [400_000]
        assert all(
            not branch.due for branch in case.branches if branch.kind in ("absent", "irrelevant", "none")
        )
    assert cases["call-010"].branches[-1].due[0].text == cases["call-011"].branches[0].due[0].text


def test_memories_are_one_before_the_fork_and_differ_from_it_on(
    runner: CaseRunner, cases: dict[str, Case]
) -> None:
    """To the version: what a step before the fork sees, and the states and words behind it, are those of the store."""
    for case in cases.values():
        plan = runner.course(case).plan
        fork = plan.prefix_frames + case.fork_frame - plan.first
        table = runner.lm.text_emb.weight
        seen = {}
        for branch in case.branches:
            memory = branch_memory(case, branch, plan, text_table=table, window=40_000)
            assert memory is not None
            slots = runner.readers.slots_of(memory) if runner.readers is not None else None
            assert slots is not None
            seen[branch.name] = [
                slots(torch.nonzero((memory.start <= step) & (step < memory.end)).flatten())
                for step in range(plan.steps)
            ]
        for name, steps in seen.items():
            same = [torch.equal(a, b) for a, b in zip(steps, seen["unchanged"], strict=True)]
            assert all(same[:fork]), name
            assert all(same) == (name == "unchanged")
            if name != "unchanged":
                assert not same[fork]


def test_runs_agree_word_for_word_before_the_branch_point(runner: CaseRunner, cases: dict[str, Case]) -> None:
    """Forked off one run, and each by itself from the beginning: all of the frames, and after the fork the same too."""
    for name in ("call-003", "call-010"):
        case, delays = cases[name], runner.lm.delays.delays
        forked = runner.branches(case)
        differ = {}
        for branch in case.branches:
            if branch.kind in ("delayed", "irrelevant", "other"):
                assert first_difference(runner.alone(case, branch), forked[branch.name], delays) is None
            differ[branch.name] = first_difference(forked[branch.name], forked["unchanged"], delays)
        assert differ.pop("unchanged") is None
        assert all(at is None or at >= case.fork_frame for at in differ.values())
        assert any(at is not None for at in differ.values())


def test_irrelevant_memory_is_as_large_and_absent_memory_waits(
    runner: CaseRunner, cases: dict[str, Case]
) -> None:
    case = cases["call-003"]
    plan = runner.course(case).plan
    found = {
        branch.kind: branch_memory(case, branch, plan, text_table=runner.lm.text_emb.weight, window=40_000)
        for branch in case.branches
    }
    live = {
        kind: [int(((memory.start <= step) & (step < memory.end)).sum()) for step in range(plan.steps)]
        for kind, memory in found.items()
        if memory is not None
    }
    assert live["irrelevant"] == live["unchanged"]
    assert live["absent"][-1] == live["absent"][plan.prefix_frames] == 4
    assert live["none"][-1] == 0 and live["unchanged"][-1] == 6
    late = np.flatnonzero(np.diff(live["delayed"])) - np.flatnonzero(np.diff(live["unchanged"]))
    assert late.tolist() == [5, 5]  # 400 ms


def test_another_task_s_memory_and_none(runner: CaseRunner, cases: dict[str, Case]) -> None:
    case = cases["call-003"]
    runs = {memory: runner.alone(case, None, memory=memory) for memory in ("wrong", "none")}  # type: ignore[arg-type]
    assert first_difference(runs["wrong"], runs["none"], runner.lm.delays.delays) is not None
