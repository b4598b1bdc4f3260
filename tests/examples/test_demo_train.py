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
