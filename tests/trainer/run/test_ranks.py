"""Several processes make the updates that one makes, and a run may go on with another number of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from inkplex_data.errors import ConfigError
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.processes.ranks import Ranks, _buckets, meet, usable_device
from inkplex_data.trainer.run.run_options import RunOptions
from tests.conftest import ROOT
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import make_task_store
from tests.trainer.run.processes import OPTIONS, job, processes

CHECKS = {"tasks": 3, "every_updates": 2, "resamples": 50}


def test_two_ranks_then_one_make_the_run_of_one(tmp_path: Path) -> None:
    """Three calls an update do not divide by two ranks: sums and global totals make up for it. The first four
    updates on two ranks, the rest on one, against all on one."""
    store = make_task_store(tmp_path / "store", train=7, validation=3)
    recipe = small_recipe(checks=CHECKS)
    elsewhere = tmp_path / "elsewhere"
    (first, refused), _ = processes(
        2,
        [
            job(recipe, store, tmp_path / "two", stop_after=4),
            job(recipe, store, tmp_path / "two", elsewhere, resume=True),
        ],
    )
    assert [outcome["update"] for outcome in first] == [4, 4]
    # A rank with another folder is named by both.
    assert refused[1]["kind"] == "CheckpointError" and refused[0]["kind"] == "OtherRankError"
    assert refused[0]["error"].startswith(f"rank 1 ({elsewhere}) has failed: rank 0 goes on from revision ")
    two = train(recipe, store, tmp_path / "two", RunOptions(**OPTIONS, resume=True))
    one = train(recipe, store, tmp_path / "one", RunOptions(**OPTIONS))
    rows = [
        [json.loads(line) for line in (run.run / "metrics.jsonl").read_text().splitlines()]
        for run in (two, one)
    ]
    assert [row["calls"] for row in rows[0]] == [row["calls"] for row in rows[1]] == [3, 3, 1, 3, 3, 1]
    for mine, theirs in zip(*rows, strict=True):
        for name in ("loss", "text_loss", "voice_loss", "gradient_norm", "read_strength", "frames"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-6), name
        assert mine["parts"] == pytest.approx(theirs["parts"], rel=1e-3)
    a, b = load_checkpoint(two.checkpoint), load_checkpoint(one.checkpoint)
    assert a.cursor == b.cursor
    for name, value in a.tensors.items():
        if name.startswith("model."):
            torch.testing.assert_close(value, b.tensors[name], rtol=1e-2, atol=2e-3, msg=name)


@pytest.mark.slow
def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    """`torchrun … -m inkplex_data.cli.app train`: one process speaks, and the run is that of one process."""
    store = make_task_store(tmp_path / "store", train=7, validation=3)
    recipe = small_recipe(checks=CHECKS)
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe.model_dump(mode="json", exclude={"name"})))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m",
        "inkplex_data.cli.app", "train", store, "-o", tmp_path / "two", "-p", tmp_path / "recipe.yaml", "--device",
        "cpu", "--allow-untrained-codec", "--no-tensorboard", "--json",
    ]  # fmt: skip
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    updates = [event for event in events if event["event"] == "update"]
    assert [event["update"] for event in updates] == [1, 2, 3, 4, 5, 6]
    assert [event["event"] for event in events].count("summary") == 1
    one = train(recipe, store, tmp_path / "one", RunOptions(**OPTIONS))
    rows = [json.loads(line) for line in (one.run / "metrics.jsonl").read_text().splitlines()]
    assert [event["loss"] for event in updates] == pytest.approx([row["loss"] for row in rows], rel=1e-3)


def test_alone_there_is_nobody_to_meet() -> None:
    with meet("cpu") as ranks:
        assert (ranks.rank, ranks.world_size, ranks.first) == (0, 1, True)
        value = torch.ones(3)
        ranks.add_up(value)
        assert value.tolist() == [1, 1, 1]


def test_buckets_keep_order_and_types() -> None:
    tensors = [torch.ones(2), torch.ones(3), torch.ones(1, dtype=torch.float64), torch.ones(1)]
    found = [[tensor.numel() for tensor in bucket] for bucket in _buckets(tensors)]
    assert found == [[2, 3], [1], [1]]
    big = [torch.empty(40 * 2**20, dtype=torch.uint8, device="meta") for _ in range(3)]
    assert [len(bucket) for bucket in _buckets(big)] == [1, 1, 1]


def test_a_device_that_is_not_there_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="not usable"):
        usable_device("cuda:63")
    assert Ranks(device=usable_device("cpu")).device.type == "cpu"
