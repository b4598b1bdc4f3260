"""The training loop on a real store: exact resume, global denominators, refusals, and that memory is read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from inkplex_data.errors import CheckpointError, ConfigError, Interrupted, UsageError
from inkplex_data.loader import make_loader
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import open_store
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.speech_model import make_readers, open_speech_model, store_identity
from inkplex_data.trainer.run.bad_samples import BadSamples
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from inkplex_data.trainer.run.logs.run_progress import TrainReporter
from inkplex_data.trainer.run.loop import RunOptions, RunSummary, train
from inkplex_data.trainer.run.optimiser import make_optimizer
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.teacher_forcing import teacher_forced
from inkplex_data.trainer.run.update import Updater
from tests.conftest import ROOT
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import add_tasks, make_task_store

CHECKS = {"tasks": 3, "every_updates": 4, "resamples": 200}
MEASURED = ("seconds", "wait_fraction", "bytes_per_s")
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from inkplex_data.trainer.run import checkpoint
from inkplex_data.trainer.run.loop import RunOptions, train
from inkplex_data.trainer.run.train_config import TrainRecipe

torch.set_num_threads(1)
write, saves = checkpoint.save_file, []

def write_half(tensors, path, metadata):
    saves.append(path)
    if len(saves) == 2:
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    write(tensors, path, metadata)

checkpoint.save_file = write_half
recipe, store, run = sys.argv[1:]
options = RunOptions(device="cpu", workers=0, allow_untrained_codec=True, tensorboard=False)
train(TrainRecipe.model_validate_json(recipe), store, Path(run), options)
"""
"""Trains, and is killed when half of its second checkpoint is written."""


class Notes(TrainReporter):
    """Keeps what a run says."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def note(self, message: str) -> None:
        self._notes.append(message)


@pytest.fixture(scope="module")
def task_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task_store(tmp_path_factory.mktemp("loop") / "store")


def options(**changes: Any) -> RunOptions:
    values = {"device": "cpu", "workers": 0, "allow_untrained_codec": True, "tensorboard": False}
    return RunOptions(**{**values, **changes})


def rows(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    lines = (run / name).read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in MEASURED} for line in lines]


@pytest.fixture(scope="module")
def whole(task_store: Path, tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """Two passes over eight calls, three an update: six updates, without interruption."""
    run = tmp_path_factory.mktemp("whole") / "run"
    return train(small_recipe(checks=CHECKS), task_store, run, options())


def test_a_run_leaves_what_it_should(whole: RunSummary) -> None:
    assert whole.update == whole.updates == 6
    found = rows(whole.run)
    assert [row["update"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert [row["calls"] for row in found] == [3, 3, 2, 3, 3, 2]
    assert [row["pass"] for row in found] == [1, 1, 1, 2, 2, 2]
    for line in (whole.run / "metrics.jsonl").read_text().splitlines():
        assert 0 < json.loads(line)["wait_fraction"] < 1  # of the whole update, computing included
    # OneCycle, and readers that start silent and grow.
    assert found[0]["read_strength"] == [0, 0, 0, 0] and min(found[-1]["read_strength"]) > 0
    assert [row["update"] for row in rows(whole.run, "checks.jsonl")] == [4, 6]
    names = sorted(path.name for path in (whole.run / "checkpoints").glob("*.safetensors"))
    assert names == ["update-000004.safetensors", "update-000006.safetensors"]
    selected = json.loads((whole.run / "selected.json").read_text())
    assert (whole.run / selected["checkpoint"]).is_file() == (selected["update"] is not None)


@pytest.mark.parametrize("stop", [2, 3])
def test_resumed_is_uninterrupted_bit_for_bit(
    whole: RunSummary, task_store: Path, tmp_path: Path, stop: int
) -> None:
    """First part + rest == all: losses, checks, and every saved tensor, wherever it stopped in a pass."""
    recipe = small_recipe(checks=CHECKS)
    train(recipe, task_store, tmp_path / "run", options(stop_after=stop))
    resumed = train(recipe, task_store, tmp_path / "run", options(resume=True, workers=2))
    assert rows(resumed.run) == rows(whole.run)
    assert rows(resumed.run, "checks.jsonl") == rows(whole.run, "checks.jsonl")
    one, other = load_checkpoint(resumed.checkpoint), load_checkpoint(whole.checkpoint)
    assert one.tensors.keys() == other.tensors.keys()
    for name, value in one.tensors.items():
        assert torch.equal(value, other.tensors[name]), name
    assert one.cursor == other.cursor


def test_what_came_after_the_last_checkpoint_is_done_again(
    whole: RunSummary, task_store: Path, tmp_path: Path
) -> None:
    """A kill between checkpoints: the cursor on disk is the checkpoint's, and so are the metrics after resume.
    Calls that a build has added meanwhile are no part of the run."""
    store = tmp_path / "store"
    shutil.copytree(task_store, store)
    recipe = small_recipe(checks=CHECKS)
    train(recipe, store, tmp_path / "run", options(stop_after=5))
    for path in (tmp_path / "run" / "checkpoints").glob("update-000005.*"):
        path.unlink()
    assert len(rows(tmp_path / "run")) == 5
    add_tasks(store, 2, range(20, 23), "train")
    publish_snapshot(str(store), refused=[])
    resumed = train(recipe, store, tmp_path / "run", options(resume=True))
    assert rows(resumed.run) == rows(whole.run)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_checkpoint_is_passed_over(
    whole: RunSummary, task_store: Path, tmp_path: Path, keep: int
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole.run, run)
    newest = run / "checkpoints" / "update-000006.safetensors"
    newest.write_bytes(newest.read_bytes()[:-40])
    recipe = small_recipe(checks=CHECKS, checkpoints={"every_updates": 2, "keep": keep})
    # Stopped between: what it saves is not pruned in favour of the damaged one.
    train(recipe, task_store, run, options(resume=True, stop_after=5))
    assert (run / "checkpoints" / "update-000005.safetensors").is_file()
    resumed = train(recipe, task_store, run, options(resume=True))
    assert rows(resumed.run) == rows(whole.run)


def test_a_kill_during_a_save_costs_only_time(whole: RunSummary, task_store: Path, tmp_path: Path) -> None:
    """SIGKILL while the second checkpoint is being written: the first loads, and the losses are the same."""
    recipe, run = small_recipe(checks=CHECKS), tmp_path / "run"
    arguments = [recipe.model_dump_json(), str(task_store), str(run)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in (run / "checkpoints").glob("update-*.safetensors")] == [
        "update-000002.safetensors"
    ]
    resumed = train(recipe, task_store, run, options(resume=True))
    assert rows(resumed.run) == rows(whole.run)
    assert rows(resumed.run, "checks.jsonl") == rows(whole.run, "checks.jsonl")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_update_and_saves_it(
    whole: RunSummary, task_store: Path, tmp_path: Path, number: signal.Signals
) -> None:
    class Signalled(TrainReporter):
        def update(self, row: Mapping[str, Any], updates: int) -> None:
            if row["update"] == 3:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    recipe, run = small_recipe(checks=CHECKS), tmp_path / "run"
    with pytest.raises(Interrupted, match=f"stopped by {number.name} after update 3, and saved") as caught:
        train(recipe, task_store, run, options(), reporter=Signalled())
    assert caught.value.exit_code == 130 and "--resume" in str(caught.value)
    assert signal.getsignal(number) == before
    assert (run / "checkpoints" / "update-000003.safetensors").is_file()
    assert rows(train(recipe, task_store, run, options(resume=True)).run) == rows(whole.run)


def test_a_run_without_a_checkpoint_begins_with_its_own_panel(task_store: Path, tmp_path: Path) -> None:
    """A run that was broken off before its first checkpoint leaves a panel behind, perhaps of other settings."""
    run = tmp_path / "run"
    train(small_recipe(checks=CHECKS), task_store, run, options(stop_after=1))
    shutil.rmtree(run / "checkpoints")
    train(small_recipe(checks={**CHECKS, "tasks": 2}), task_store, run, options(stop_after=1))
    assert len(json.loads((run / "panel.json").read_text())["calls"]) == 2


def test_resuming_needs_the_same_recipe_and_asks_for_consent(whole: RunSummary, task_store: Path) -> None:
    with pytest.raises(UsageError, match="holds a run that has made 6 updates"):
        train(small_recipe(checks=CHECKS), task_store, whole.run, options())
    with pytest.raises(ConfigError) as caught:
        train(
            small_recipe(checks=CHECKS, seed=6, data__passes=3), task_store, whole.run, options(resume=True)
        )
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["data.passes", "seed"]


def test_a_checkpoint_fits_its_model_codec_and_tokenizer_only(
    whole: RunSummary, task_store: Path, tmp_path: Path
) -> None:
    other = tmp_path / "store"
    shutil.copytree(task_store, other)
    description = json.loads((other / "store.json").read_text())
    description["codec"]["sha256"] = "other"
    description["tokenizer"]["sha256"] = "another"
    (other / "store.json").write_text(json.dumps(description))
    publish_snapshot(str(other))
    with pytest.raises(CheckpointError) as caught:
        train(small_recipe(checks=CHECKS, model__weights="seeded:9"), other, whole.run, options(resume=True))
    assert all(name in str(caught.value) for name in ("codec", "tokenizer_sha256", "model"))


def test_an_untrained_codec_needs_consent(task_store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="untrained codec") as caught:
        train(small_recipe(), task_store, tmp_path / "run", options(allow_untrained_codec=False))
    assert "--allow-untrained-codec" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_an_update_is_the_gradient_of_one_loss_over_all_its_calls(task_store: Path) -> None:
    """Accumulation with global denominators equals one backward of the summed batch, not a mean of means."""
    recipe = small_recipe(objective__weights={"pad": 0.1, "acoustic": 0.5})
    weights = recipe.objective.make()
    with open_store(task_store) as store:
        identity = store_identity(store, split="train", allow_untrained_codec=True)
        models = []
        for _ in range(2):
            lm = open_speech_model(recipe.model, identity).lm
            model = ConnectedLM(lm, make_readers(recipe, lm, state_width=identity.state_width))
            with torch.no_grad():  # readers that are not silent, so that every parameter has a gradient
                for parameter in model.memory.parameters():
                    parameter.add_(
                        0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
                    )
            models.append(model)
        one, other = models
        loader = make_loader(store, "train", seed=1, workers=0, group=3)
        optimizer, schedule = make_optimizer({"memory": one.memory.parameters()}, recipe.optimizer, updates=5)
        free = recipe.optimizer.model_copy(update={"clip_norm": 1e9})
        updater = Updater(one, optimizer, schedule, weights, free, Ranks())
        groups = loader.groups()
        result = updater.make(next(groups))

        batches = [
            batch for _, batch in zip(range(3), make_loader(store, "train", seed=1, workers=0), strict=False)
        ]
        sums = [teacher_forced(other, batch, weights)[0] for batch in batches]
        total = sums[0] + sums[1] + sums[2]
        total.loss().backward()
    assert result.loss == pytest.approx(float(total.loss().detach()), rel=1e-6)
    assert result.parts["agent/acoustic"] == pytest.approx(
        float(total.part_sums[5] / total.part_counts[5]), rel=1e-6
    )
    for (name, mine), theirs in zip(one.memory.named_parameters(), other.memory.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None and mine.grad.abs().max() > 0, name
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6, msg=name)


def test_divergence_stops_a_run_before_its_parameters_change(task_store: Path) -> None:
    recipe = small_recipe()
    with open_store(task_store) as store:
        identity = store_identity(store, split="train", allow_untrained_codec=True)
        lm = open_speech_model(recipe.model, identity).lm
        model = ConnectedLM(lm, make_readers(recipe, lm, state_width=identity.state_width))
        with torch.no_grad():
            model.memory.readers[0].output.bias[0] = torch.inf
        before = {name: value.clone() for name, value in model.memory.named_parameters()}
        optimizer, schedule = make_optimizer(
            {"memory": model.memory.parameters()}, recipe.optimizer, updates=5
        )
        loader = make_loader(store, "train", seed=1, workers=0, group=3)
        updater = Updater(model, optimizer, schedule, recipe.objective.make(), recipe.optimizer, Ranks())
        groups = loader.groups()
        with pytest.raises(BadSamples, match=r"call 'call-00\d', frames 0 to 18, on rank 0: its loss is nan"):
            updater.make(next(groups))
    assert all(torch.equal(value, before[name]) for name, value in model.memory.named_parameters())


def test_the_model_learns_to_read_the_result(tmp_path: Path) -> None:
    """First pieces with the call's own memory against another task's and none, the bootstrap's bounds included."""
    store = make_task_store(tmp_path / "store", train=16, validation=8)
    recipe = small_recipe(
        model__sizes__dim=64,
        memory={"slot_width": 32},
        optimizer={"max_learning_rate": 2e-2},
        objective={"weights": {"pad": 0.0, "epad": 0.0}},
        data={"passes": 8, "calls_per_update": 4},
        checks={"tasks": 8, "every_updates": 100, "resamples": 1_000},
        checkpoints={"every_updates": 100},
    )
    summary = train(recipe, store, tmp_path / "run", options())
    (check,) = rows(summary.run, "checks.jsonl")
    losses = check["losses"]["first piece"]
    assert losses["own"] < losses["wrong"] and losses["own"] < losses["none"]
    for other in ("wrong - own", "none - own"):
        assert check["differences"][other]["first piece"]["lower"] > 0
