"""A model divided among ranks: the losses of one rank, checkpoints for any number of them, and every parameter."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from inkplex_data.errors import CheckpointError
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.lora import attach_lora
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.run.checkpoint import Checkpoint, load_checkpoint
from inkplex_data.trainer.run.loop import train
from inkplex_data.trainer.run.memory_plan import GIB, plan_memory
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.run_options import RunOptions
from inkplex_data.trainer.run.run_state import CheckpointFolder
from inkplex_data.trainer.run.sharding.shard_files import shards_folder
from inkplex_data.trainer.run.take_out import export_adapter
from inkplex_data.trainer.run.train_config import load_train_recipe
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import bad_task_store, make_task_store
from tests.trainer.run.processes import OPTIONS, job, killed, processes

LORA = {"temporal_rank": 4, "depth_rank": 2}
CHECKS = {"tasks": 3, "every_updates": 12, "resamples": 20}


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("trains", ["full", "lora", "memory_and_lora"])
def test_ranks_that_share_a_model_make_the_run_of_one(tmp_path: Path, trains: str) -> None:
    """20 updates on four ranks, resumed after 12 on two, against all on one; and on one from what four have saved."""
    store = make_task_store(tmp_path / "store", train=7, validation=3)
    recipe = small_recipe(
        trains=trains,
        lora=LORA,
        checks=CHECKS,
        data={"passes": 7, "calls_per_update": 3},
        optimizer__max_learning_rate=1e-3,
        model__recompute=True,
        checkpoints={"every_updates": 12},
    )
    run = tmp_path / "run"
    (first,), _ = processes(4, [job(recipe, store, run, shard=True, stop_after=12)])
    assert [outcome["update"] for outcome in first] == [12] * 4
    shutil.copytree(run, tmp_path / "alone")
    (second,), _ = processes(2, [job(recipe, store, run, shard=True, resume=True, stop_after=20)])
    assert [outcome["update"] for outcome in second] == [20] * 2
    one = train(recipe, store, tmp_path / "one", RunOptions(**OPTIONS, stop_after=20))
    assert losses(run) == pytest.approx(losses(one.run), abs=1e-5) and len(losses(run)) == 20
    alone = train(recipe, store, tmp_path / "alone", RunOptions(**OPTIONS, resume=True, stop_after=20))
    assert losses(alone.run) == pytest.approx(losses(one.run), abs=1e-5)
    for at in (12, 20):
        ours = load_checkpoint(CheckpointFolder(run / "checkpoints").path(at))
        assert len(ours.shards or ()) == (4 if at == 12 else 2)
    theirs = load_checkpoint(one.checkpoint)
    assert ours.tensors.keys() == theirs.tensors.keys()
    for name, value in ours.tensors.items():
        torch.testing.assert_close(value, theirs.tensors[name], rtol=1e-3, atol=1e-4, msg=name)
    assert ours.cursor == theirs.cursor
    if trains == "lora":
        assert export_adapter(run, tmp_path / "adapter")


@pytest.mark.slow
def test_ranks_go_on_together_or_not_at_all(tmp_path: Path) -> None:
    """One start of two processes: bad samples with a model that is divided and one that is not, other folders, and a rank that hangs."""
    store = make_task_store(tmp_path / "good", train=7, validation=3)
    bad = bad_task_store(tmp_path / "bad")
    a, b = tmp_path / "a", tmp_path / "b"
    allowed = small_recipe(trains="memory_and_lora", lora=LORA, data__bad_calls=2)
    plain = small_recipe(data__bad_calls=2)
    (shared, whole, apart), complaints = processes(
        2,
        [
            job(allowed, bad, a, shard=True),
            job(plain, bad, b),
            job(small_recipe(trains="full"), store, tmp_path / "x", tmp_path / "y", shard=True),
            {"hang": 1.0},
        ],
    )
    assert [outcome.get("update") for outcome in (*shared, *whole)] == [8] * 4
    for run, recipe in ((a, allowed), (b, plain)):
        saved = load_checkpoint(CheckpointFolder(run / "checkpoints").path(8))
        assert {row["call_id"] for row in saved.progress["left_out"]} == {"call-020", "call-022"}
        knowing = recipe.model_copy(
            update={"data": recipe.data.model_copy(update={"exclude": ("call-020", "call-022")})}
        )
        one = train(knowing, bad, tmp_path / f"knowing-{run.name}", RunOptions(**OPTIONS))
        assert losses(run) == pytest.approx(losses(one.run), abs=1e-5)
    assert all("rank 1 does not see what rank 0 writes here" in outcome["error"] for outcome in apart)
    said = complaints[0]
    assert "rank 1 on " in said and "reads a slow disk" in said
    assert "does not answer" in said and "it last said: sleeps" in said


@pytest.fixture(scope="module")
def one_of_eight() -> Any:
    """This process as the first of eight, whom nobody answers and who asks nobody."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    yield Ranks(0, 8, torch.device("cpu"))
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ["finetune_full", "finetune_lora"])
def test_every_parameter_is_divided_as_the_plan_says(one_of_eight: Ranks, name: str) -> None:
    """PersonaPlex at its full size on the meta device: what the first of eight GPUs holds, against the arithmetic."""
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

    from inkplex_data.trainer.run.sharding.shard_model import blocks, shard_model

    recipe = load_train_recipe(name)
    config = PersonaPlexConfig()
    with torch.device("meta"):
        lm = PersonaPlexLM(config).to(torch.bfloat16).freeze()
        if name == "finetune_lora":
            attach_lora(lm, recipe.lora.options(), seed=0)
        trained = [
            value
            for key, value in lm.named_parameters()
            if name == "finetune_full" or key[-2:] in (".A", ".B")
        ]
        for value in trained:
            value.requires_grad_(True)
        total, wanted = sum(v.numel() for v in lm.parameters()), sum(v.numel() for v in trained)
        shard_model(ConnectedLM(lm, None), one_of_eight, torch.bfloat16)
    assert all(isinstance(block, FSDPModule) for block in (*blocks(lm), lm))
    assert all(isinstance(value, DTensor) for value in lm.parameters())
    assert sum(value.numel() for value in lm.parameters()) == total
    held = [(value.requires_grad, value.dtype, value.to_local().numel()) for value in lm.parameters()]
    assert {dtype for trains, dtype, _ in held if trains} == {torch.float32}
    plan = plan_memory(recipe, config, state_width=None, gpu_bytes=80 * GIB, gpus=8)
    mine = sum(size for trains, _, size in held if trains)
    assert 4 * mine == pytest.approx(plan.fixed["trained weights"], rel=2e-3) and 8 * mine >= wanted
    frozen = sum(size for trains, _, size in held if not trains)
    assert 2 * frozen == pytest.approx(plan.fixed["frozen weights"], rel=2e-3)


def test_full_fine_tuning_of_personaplex_fits_eight_gpus_and_not_one() -> None:
    recipe, config = load_train_recipe("finetune_full"), PersonaPlexConfig()
    one, eight = (
        plan_memory(recipe, config, state_width=None, gpu_bytes=80 * GIB, gpus=gpus) for gpus in (1, 8)
    )
    assert one.largest_frames == 0 and eight.largest_frames >= eight.forward_frames
    assert eight.fixed["trained weights"] * 8 == pytest.approx(one.fixed["trained weights"], rel=1e-6)
    assert eight.fixed["optimiser"] == 2 * eight.fixed["gradients"]
    assert "divided among 8 GPUs" in eight.text() and "this fits" in eight.text()


def test_damaged_files_of_a_divided_model_are_found(tmp_path: Path) -> None:
    from inkplex_data.trainer.run.sharding.shard_files import damage, read_whole

    name = "shard-00001-model-00001-of-00001.safetensors"
    (tmp_path / name).write_bytes(b"12345678")
    files = {name: [8, 0x6087809A]}
    assert damage(tmp_path, files) is None
    (tmp_path / name).write_bytes(b"12345679")
    assert damage(tmp_path, files) == f"{name} is not the file that was saved"
    assert damage(tmp_path, {"../x": [1, 2], **files}) == "x is not the file that was saved"
    with pytest.raises(CheckpointError, match="is not the file that was saved"):
        read_whole(tmp_path, files)


KILLED = """
import os, signal
from inkplex_data.trainer.run import checkpoint
write, saves = checkpoint.save_file, []

def write_half(tensors, path, metadata):
    saves.append(path)
    if len(saves) == 2:
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    write(tensors, path, metadata)

checkpoint.save_file = write_half
"""
"""Rank 0, which writes what names the files of all ranks, is killed when half of it is written."""


@pytest.mark.slow
def test_a_kill_during_a_save_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """SIGKILL when all files of the second checkpoint lie there and nothing names them yet; the other rank says who has
    gone. A process alone goes on from the first checkpoint, with the losses of a run that nothing interrupted."""
    store = make_task_store(tmp_path / "store", train=7, validation=3)
    recipe = small_recipe(trains="lora", lora=LORA, checkpoints={"every_updates": 2})
    run = tmp_path / "run"
    codes, complaints = killed(2, [job(recipe, store, run, shard=True)], before=KILLED)
    assert codes[0] == -signal.SIGKILL and codes[1] == 0
    assert "LostRankError" in complaints[1] and "rank 0" in complaints[1]
    folder = run / "checkpoints"
    assert [path.name for path in folder.glob("update-*.safetensors")] == ["update-000002.safetensors"]
    assert len(list(folder.glob("*.shards"))) == 2
    resumed = train(recipe, store, run, RunOptions(**OPTIONS, resume=True))
    one = train(recipe, store, tmp_path / "one", RunOptions(**OPTIONS))
    assert losses(resumed.run) == pytest.approx(losses(one.run), abs=1e-5)
    assert not list(folder.glob("update-000004.*.shards"))


def test_files_that_no_checkpoint_names_are_leftovers(tmp_path: Path) -> None:
    """Parts of a checkpoint that was never published, or was replaced, go; those of a published one stay until it is
    pruned."""
    folder = CheckpointFolder(tmp_path)
    shards = [
        shards_folder(folder.path(update), revision) for update, revision in ((2, "aa"), (2, "bb"), (4, "cc"))
    ]
    for path in shards:
        path.mkdir()
    folder.save(2, Checkpoint({"random": torch.zeros(1)}, {}, shards={}), "aa")
    assert [path.is_dir() for path in shards] == [True, False, False]
    folder.save(6, Checkpoint({"random": torch.zeros(1)}, {}))
    folder.prune(1)
    assert [path.name for path in tmp_path.iterdir() if "000002" in path.name] == []


@pytest.mark.slow
def test_compiled_blocks_lose_what_others_lose(tmp_path: Path) -> None:
    store = make_task_store(tmp_path / "store", train=4, validation=2)
    recipe = small_recipe(trains="lora", lora=LORA, data={"passes": 1, "calls_per_update": 2})
    plain = train(recipe, store, tmp_path / "plain", RunOptions(**OPTIONS))
    compiled = train(recipe, store, tmp_path / "compiled", RunOptions(**OPTIONS, compile=True))
    assert losses(compiled.run) == pytest.approx(losses(plain.run), abs=1e-5)
