"""The training demo on a smaller made task, through the real build, codec and capture."""

from __future__ import annotations

import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_own_memory_is_better_than_both_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First-piece loss: own < wrong, own < none, and the bootstrap's lower bounds of both are above zero."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    demo = runpy.run_path(str(ROOT / "examples" / "demo_train.py"))
    found = demo["run_demo"](
        tmp_path,
        train_calls=15,
        validation_calls=6,
        twins=1,
        workers=1,
    )
    better, sentence = demo["verdict"](found)
    assert better, sentence
    first = found.summary.row(0, named=True)
    assert first["own"] < min(first["wrong"], first["baseline"])
    assert found.twin_summary["pairs"] == 1


@pytest.mark.slow
def test_the_trained_model_says_what_it_could_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above silence, constants, no connector, text in the prompt and another task's memory; the oracle at 100%."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    demo = runpy.run_path(str(ROOT / "examples" / "demo_train.py"))
    found = demo["run_branches"](tmp_path)
    assert demo["grounded"](found), found.text()
    assert found.runs.filter(system="trained")["agrees"].all()
    floor = found.summary.filter(kind="both", system="wrong memory")["right"].item()
    assert floor <= 0.1


def test_every_branch_of_the_made_task_says_what_became_of_its_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twins are one until their fork; what failed and what was superseded is said so in the evidence."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    made = runpy.run_path(str(ROOT / "examples" / "made_task.py"))
    scenes = made["branch_scenes"](7, 1)
    assert [scene.id for scene in scenes[7:]] == [
        "day-007",
        "day-007-other",
        "day-007-failed",
        "day-007-superseded",
    ]
    assert {scene.family for scene in scenes[7:]} == {"day-007"}
    own, *twins = scenes[7:]
    for twin in twins:
        name, fork_us = twin.work.branch_of
        before = [[t.to_json() for t in s.work.tokens() if t.arrival_us < fork_us] for s in (own, twin)]
        assert name == own.id and before[0] == before[1]
        after = [[t.to_json() for t in s.work.tokens() if t.arrival_us >= fork_us] for s in (own, twin)]
        assert after[0] != after[1]
    assert [bool(scene.failed) for scene in scenes[7:]] == [False, False, True, False]
    assert [bool(scene.superseded) for scene in scenes[7:]] == [False, False, False, True]
    assert twins[1].response.said == "Failed." and twins[2].response.said != own.response.said
    assert (
        sum(bool(scene.failed) for scene in scenes[:7])
        == sum(bool(scene.superseded) for scene in scenes[:7])
        == 1
    )


def test_the_made_task_is_what_it_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days come equally often and only from the tool; twins differ from the fork on alone."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    made = runpy.run_path(str(ROOT / "examples" / "made_task.py"))
    scenes = made["made_scenes"](10, 5, 2)
    assert [scene.split for scene in scenes] == ["train"] * 10 + ["validation"] * 7
    said = [scene.response.said for scene in scenes if not scene.id.endswith("twin")]
    assert all(said.count(day) == 3 for day in made["DAYS"])
    for scene in scenes:
        spelled = [(token.kind, token.spelled.decode()) for token in scene.work.tokens() if not token.special]
        assert [kind for kind, text in spelled if text.strip() == scene.response.said] == ["tool_result"]
        told = next(s for s in scene.work.segments() if s.kind == "tool_result")
        assert scene.session(scene.response.start_us) > told.arrival_us
    one, twin = next((scene, other) for scene, other in pairwise(scenes) if other.id == f"{scene.id}-twin")
    name, fork_us = twin.work.branch_of
    before = [[t.to_json() for t in s.work.tokens() if t.arrival_us < fork_us] for s in (one, twin)]
    assert name == one.id and before[0] == before[1] and len(before[0]) > 10
    assert one.family == twin.family and one.response.said != twin.response.said
    assert (one.call.render(one.duration_us) == twin.call.render(twin.duration_us)).all()
