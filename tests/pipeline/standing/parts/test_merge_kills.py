"""A merge that stops at any change that it makes to the disk is finished by the same command, in the same bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import inkplex_data as ink
from inkplex_data.pipeline.parts.merge_stores import merge_stores
from tests.pipeline.conftest import tree
from tests.pipeline.standing.conftest import Parted
from tests.pipeline.standing.test_kills import watched

SAMPLED = 2


@pytest.mark.parametrize(
    "every", [pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]), False]
)
def test_stopped_at_any_change(every: bool, parted: Parted, tmp_path: Path) -> None:
    store = tmp_path / "store"

    def merge() -> None:
        merge_stores(parted.parts, store)

    points = watched(store, merge)
    wanted, sources = tree(store), [tree(part) for part in parted.parts]
    assert points > 100
    for point in range(1, points + 1) if every else range(points, 0, -(points // SAMPLED)):
        shutil.rmtree(store)
        watched(store, merge, stop_at=point)
        if (store / "store.json").exists():
            opened = ink.open_store(store)
            assert all(opened.call(call_id).frames for call_id in opened.call_ids)
        merge()
        assert tree(store) == wanted, f"stopped at change {point} of {points}"
    assert [tree(part) for part in parted.parts] == sources
