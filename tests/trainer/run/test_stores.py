"""Several stores in one run: by weight, resumed as they were, and only of one kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.loader import make_loader
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.trainer.run.loop import train
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import make_task_store
from tests.trainer.run.test_loop import options, rows


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("stores")
    return [
        make_task_store(folder / "many", train=6, validation=3),
        make_task_store(folder / "few", train=2, validation=3),
    ]


def test_stores_are_read_by_weight_and_resumed(stores: list[Path], tmp_path: Path) -> None:
    """Two stores of 6 and 2 calls, in equal parts: 12 samples a pass, and a resumed run is an uninterrupted one."""
    recipe = small_recipe(data={"passes": 1, "calls_per_update": 3, "mix": (1, 1)})
    whole = train(recipe, stores, tmp_path / "whole", options())
    assert [row["calls"] for row in rows(whole.run)] == [3, 3, 3, 3]
    train(recipe, stores, tmp_path / "run", options(stop_after=2))
    resumed = train(recipe, stores, tmp_path / "run", options(resume=True))
    assert rows(resumed.run) == rows(whole.run)
    with pytest.raises(CheckpointError, match="the run reads 2 stores, and 1 are given"):
        train(recipe, stores[:1], tmp_path / "run", options(resume=True))
    # A call that both have is left out of both.
    without = small_recipe(data={"passes": 1, "calls_per_update": 3, "exclude": ("call-000",)})
    run = train(without, stores, tmp_path / "without", options())
    assert sum(row["calls"] for row in rows(run.run)) == 6
    with pytest.raises(UsageError, match="a mix of 1 stores needs that many weights"):
        train(recipe, stores[0], tmp_path / "one", options())


@pytest.mark.parametrize(("part", "key"), [("codec", "codec_sha256"), ("tokenizer", None)])
def test_stores_of_two_kinds_are_refused(
    stores: list[Path], tmp_path: Path, part: str, key: str | None
) -> None:
    other = make_task_store(tmp_path / "other", train=2, validation=1, **({key: "another"} if key else {}))
    if key is None:
        about = json.loads((other / "store.json").read_text())
        about["tokenizer"] |= {"sha256": "another", "name": "theirs"}
        (other / "store.json").write_text(json.dumps(about))
        publish_snapshot(str(other))
    with pytest.raises(ConfigError, match="of the kind that the first store has") as caught:
        make_loader([stores[0], other], "train", seed=0, memory="none")
    assert caught.value.faults[0].startswith(f"{part}: ")
    with pytest.raises(ConfigError, match="stores of one run must be of one kind"):
        train(small_recipe(), [stores[0], other], tmp_path / "run", options())
