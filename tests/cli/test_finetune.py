"""From a store to a voice and out again, as a user runs it: plan, train, begin from it, evaluate, generate, export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from inkplex_data.errors import UsageError
from inkplex_data.speech.codec import load_codec
from tests.cli.test_train import invoke
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import make_task_store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store`, `recipe.yaml` and a finished `run` of adapters."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finetune")
    make_task_store(
        folder / "store", train=3, validation=2, codec_sha256=load_codec("untrained:0").identity.sha256
    )
    recipe = small_recipe(
        trains="lora", lora={"temporal_rank": 2, "depth_rank": 2}, data__passes=1, checks={"tasks": 2}
    )
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude={"name"})))
    code, output = invoke(*training(folder, "run"))
    assert code == 0 and "selected at update 1" in output
    return folder


def training(folder: Path, run: str, *more: object) -> list[object]:
    return [
        "train", folder / "store", "-o", folder / run, "-p", folder / "recipe.yaml", "--device", "cpu", "--workers", 0,
        "--allow-untrained-codec", "--no-tensorboard", *more,
    ]  # fmt: skip


def test_a_plan_loads_nothing_and_makes_nothing(folder: Path) -> None:
    code, output = invoke(
        "train", folder / "store", "-o", folder / "planned", "-p", "finetune_lora", "--plan", "--gpu-gib", 80
    )
    assert code == 0 and not (folder / "planned").exists()
    assert (
        output.startswith("8,075,603,968 parameters, 387,874,816 of them train")
        and "of which 8% are left free" in output
        and "this fits" in output
    )
    assert "does not fit" in invoke(*training(folder, "planned", "--plan", "--set", "trains=full", "--set",
        "model.sizes.dim=40000", "--set", "model.sizes.layers=64"))[1]  # fmt: skip


def test_another_run_begins_with_it(folder: Path) -> None:
    code, _ = invoke(*training(folder, "next", "--from", folder / "run"))
    meta = json.loads((folder / "next" / "checkpoints" / "update-000001.meta.json").read_text())
    first = json.loads((folder / "run" / "checkpoints" / "update-000001.meta.json").read_text())
    assert code == 0 and meta["progress"]["from"]["revision_id"] == first["revision_id"]


def test_a_voice_is_scored_and_heard_without_memory(folder: Path) -> None:
    code, output = invoke(
        "evaluate", folder / "run", folder / "store", "--resamples", 20, "--device", "cpu", "--json"
    )
    body = json.loads(output)
    assert code == 0 and body["memories"] == ["none"] and body["twins"]["pairs"] == 0
    heard = (
        "generate",
        folder / "run",
        folder / "store",
        "-o",
        folder / "heard",
        "--seconds",
        0.8,
        "--limit",
        1,
    )
    code, _ = invoke(*heard, "--no-audio", "--device", "cpu")
    assert code == 0 and [path.name for path in (folder / "heard").rglob("*.json")] == ["trained.json"]
    with pytest.raises(UsageError, match="reads no memory"):
        invoke(*heard, "--memory", "own", "--device", "cpu")


def test_adapter_and_model_are_written(folder: Path) -> None:
    code, output = invoke("export", "adapter", folder / "run", "-o", folder / "adapter")
    assert code == 0 and [Path(line).name for line in output.split()] == ["lora.safetensors", "config.json"]
    code, output = invoke("export", "model", folder / "run", "-o", folder / "model")
    assert code == 0 and [Path(line).name for line in output.split()] == ["model.safetensors", "config.json"]
    with pytest.raises(UsageError, match="not empty"):
        invoke("export", "model", folder / "run", "-o", folder / "model")
