"""Training the speech model itself: what trains and what stays, exact resume, and the way out and in again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.store.reader import open_store
from inkplex_data.trainer.model.load_weights import load_personaplex
from inkplex_data.trainer.model.lora import attach_lora, merge_lora, projections
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from inkplex_data.trainer.run.loop import RunOptions, RunSummary, train
from inkplex_data.trainer.run.run_files import load_trained
from inkplex_data.trainer.run.take_out import export_adapter, export_model
from inkplex_data.trainer.run.train_config import TrainRecipe
from inkplex_data.trainer.run.trained_parts import make_model, narrow, trained_groups
from tests.conftest import ROOT
from tests.trainer.conftest import random_codes, small_config
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import WIDTH, make_task_store
from tests.trainer.run.test_loop import KILLED, options, rows

LORA = {"temporal_rank": 4, "depth_rank": 2}
CHECKS = {"tasks": 3, "every_updates": 4, "resamples": 50}


def recipe(trains: str, **changes: Any) -> TrainRecipe:
    return small_recipe(**{"trains": trains, "lora": LORA, "checks": CHECKS, **changes})


@pytest.fixture(scope="module")
def task_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task_store(tmp_path_factory.mktemp("finetune") / "store")


@pytest.fixture(scope="module")
def adapted(task_store: Path, tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """Two passes over eight calls with adapters, three calls an update: six updates."""
    return train(recipe("lora"), task_store, tmp_path_factory.mktemp("lora") / "run", options())


def equal(first: PersonaPlexLM, second: PersonaPlexLM, *, within: float = 0.0) -> bool:
    codes = random_codes(first.config, 9)
    with torch.no_grad():
        ours, theirs = first.forward_train(codes), second.forward_train(codes)
    pairs: list[tuple[Tensor, Tensor]] = [(ours.text_logits, theirs.text_logits), (ours.logits, theirs.logits)]
    return all(
        float((one.nan_to_num().float() - other.nan_to_num().float()).abs().max()) <= within
        for one, other in pairs
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_adapters_change_no_logit_and_moved_ones_merge_exactly(dtype: torch.dtype) -> None:
    plain = PersonaPlexLM.seeded(small_config(), 3).to(dtype)
    with_lora = PersonaPlexLM.seeded(small_config(), 3).to(dtype)
    chosen = recipe("lora").lora.options()
    found = attach_lora(with_lora, chosen, seed=1)
    assert len(found) == len(list(projections(with_lora)))
    assert equal(plain, with_lora)
    draw = torch.Generator().manual_seed(2)
    for projection in found:
        projection.lora.B.data.copy_(0.05 * torch.randn(projection.lora.B.shape, generator=draw))
    assert not equal(plain, with_lora, within=1e-3)
    merged = PersonaPlexLM.seeded(small_config(), 3).to(dtype)
    attach_lora(merged, chosen, seed=1)
    for own, theirs in zip(projections(merged), found, strict=True):
        own.lora.load_state_dict(theirs.lora.state_dict())
    merge_lora(merged)
    assert set(merged.state_dict()) == set(plain.state_dict())
    assert equal(merged, with_lora, within=1e-5 if dtype == torch.float32 else 0.1)


@pytest.mark.parametrize(
    ("changes", "groups"),
    [
        ({"trains": "memory"}, {"memory"}),
        ({"trains": "lora"}, {"temporal", "depth", "heads"}),
        ({"trains": "lora", "lora__embeddings": True}, {"temporal", "depth", "heads", "embeddings"}),
        ({"trains": "lora", "lora__depth_rank": 0, "lora__targets": ["attention"]}, {"temporal"}),
        ({"trains": "full"}, {"temporal", "depth", "heads", "embeddings"}),
        ({"trains": "memory_and_lora"}, {"memory", "temporal", "depth", "heads"}),
    ],
)
def test_what_does_not_train_keeps_its_type(changes: dict[str, Any], groups: set[str]) -> None:
    chosen = small_recipe(lora=LORA, model__dtype="bfloat16", **changes)
    lm = PersonaPlexLM.seeded(small_config(), 3).bfloat16()
    before = {name: value.clone() for name, value in lm.state_dict().items()}
    codes = random_codes(lm.config, 9)
    expected = lm.forward_train(codes)
    model = make_model(chosen, lm, state_width=WIDTH)
    assert set(trained_groups(model)) == groups
    for name, parameter in model.named_parameters():
        assert parameter.dtype == (torch.float32 if parameter.requires_grad else torch.bfloat16), name
    found = model.lm.forward_train(codes)
    assert torch.equal(found.text_logits, expected.text_logits)
    assert torch.equal(found.logits.nan_to_num(), expected.logits.nan_to_num())
    narrow(model.lm, torch.bfloat16)
    for name, value in before.items():
        assert torch.equal(model.lm.state_dict()[name], value), name


@pytest.mark.parametrize("trains", ["lora", "full", "memory_and_lora"])
def test_resumed_is_uninterrupted_bit_for_bit(
    adapted: RunSummary, task_store: Path, tmp_path: Path, trains: str
) -> None:
    chosen = recipe(trains, lora__embeddings=trains == "memory_and_lora")
    whole = adapted if trains == "lora" else train(chosen, task_store, tmp_path / "whole", options())
    train(chosen, task_store, tmp_path / "run", options(stop_after=3))
    resumed = train(chosen, task_store, tmp_path / "run", options(resume=True, workers=2))
    assert rows(resumed.run) == rows(whole.run)
    assert rows(resumed.run, "checks.jsonl") == rows(whole.run, "checks.jsonl")
    one, other = load_checkpoint(resumed.checkpoint), load_checkpoint(whole.checkpoint)
    assert one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(value, other.tensors[name]) for name, value in one.tensors.items())
    names = [name for name in one.tensors if name.startswith("model.")]
    if trains == "lora":  # only what trains is saved
        assert all(name.endswith((".A", ".B")) for name in names)
    assert any(name.startswith("model.memory.") for name in names) == (trains == "memory_and_lora")


def test_a_kill_during_a_save_costs_only_time(adapted: RunSummary, task_store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [recipe("lora").model_dump_json(), str(task_store), str(run)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    resumed = train(recipe("lora"), task_store, run, options(resume=True))
    assert rows(resumed.run) == rows(adapted.run)
    one, other = load_checkpoint(resumed.checkpoint), load_checkpoint(adapted.checkpoint)
    assert all(torch.equal(value, other.tensors[name]) for name, value in one.tensors.items())


def test_a_merged_model_out_and_in_again(adapted: RunSummary, task_store: Path, tmp_path: Path) -> None:
    """The folder that `export model` writes loads by its own config.json and says what the run's model says."""
    written = export_model(adapted.run, tmp_path / "model")
    assert [path.name for path in written] == ["model.safetensors", "config.json"]
    with open_store(task_store) as store:
        trained = load_trained(adapted.run, store, split="validation")
    assert not equal(trained.model.lm, PersonaPlexLM.seeded(trained.model.lm.config, 1), within=1e-4)
    loaded = load_personaplex(tmp_path / "model", trained.model.lm.config, dtype=torch.float32)
    assert equal(trained.model.lm, loaded, within=1e-5)
    again = small_recipe(model={"weights": str(tmp_path / "model"), "dtype": "float32"}, data__passes=1)
    train(again, task_store, tmp_path / "again", options())
    with pytest.raises(UsageError, match="not empty"):
        export_model(adapted.run, tmp_path / "model")
