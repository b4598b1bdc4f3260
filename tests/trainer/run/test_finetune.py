"""Training the speech model itself: what trains and what stays, exact resume, and the way out and in again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.store.reader import open_store
from inkplex_data.trainer.model.load_weights import load_personaplex
from inkplex_data.trainer.model.lora import attach_lora, merge_lora, projections
from inkplex_data.trainer.model.moshi_config import moshi_config
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.run.checkpoint import load_checkpoint
from inkplex_data.trainer.run.loop import RunSummary, train
from inkplex_data.trainer.run.run_files import load_trained
from inkplex_data.trainer.run.take_out import export_adapter, export_model
from inkplex_data.trainer.run.teacher_forcing import together
from inkplex_data.trainer.run.train_config import TrainRecipe
from inkplex_data.trainer.run.trained_parts import make_model, narrow, trained_groups
from tests.conftest import ROOT
from tests.trainer.conftest import random_codes, small_config
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import PIECES, WIDTH, make_task_store
from tests.trainer.run.test_loop import KILLED, Notes, options, rows

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
    pairs: list[tuple[Tensor, Tensor]] = [
        (ours.text_logits, theirs.text_logits),
        (ours.logits, theirs.logits),
    ]
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


def test_windows_together_lose_what_they_lose_alone(task_store: Path, tmp_path: Path) -> None:
    """Windows of 7 frames and what is left of each call, several a forward: the same losses up to rounding."""
    alone = recipe("lora", data__window_frames=7, data__passes=1, checks=None)
    several = recipe("lora", data__window_frames=7, data__passes=1, checks=None, data__forward_frames=26)
    one = train(alone, task_store, tmp_path / "one", options())
    other = train(several, task_store, tmp_path / "other", options())
    assert one.updates == other.updates == 8
    for ours, theirs in zip(rows(one.run), rows(other.run), strict=True):
        assert ours["calls"] == theirs["calls"] and ours["frames"] == theirs["frames"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-4)


def test_windows_go_together_while_the_longest_fits() -> None:
    frames = [5, 5, 5, 9, 30, 2, 2]

    def grouped(bound: int | None) -> list[list[int]]:
        made = (SimpleNamespace(frames=count) for count in frames)
        return [[batch.frames for batch in part] for part in together(made, bound)]  # type: ignore[arg-type]

    assert grouped(None) == [[count] for count in frames]
    assert grouped(18) == [[5, 5, 5], [9], [30], [2, 2]]
    assert grouped(1_000) == [frames]


def test_a_small_model_learns_ten_calls_by_heart(tmp_path: Path) -> None:
    """Full fine-tuning: the text of ten calls is known at the end."""
    store = make_task_store(tmp_path / "store", train=10, validation=1)
    chosen = recipe(
        "full",
        model__sizes__dim=32,
        model__sizes__layers=2,
        checks=None,
        optimizer={"max_learning_rate": 4e-2, "weight_decay": 0.0},
        data={"passes": 20, "calls_per_update": 5, "forward_frames": 200},
        checkpoints={"every_updates": 1_000},
    )
    found = rows(train(chosen, store, tmp_path / "run", options()).run)
    assert found[0]["text_loss"] > 2 and found[-1]["text_loss"] < 0.1


def test_memory_and_adapters_learn_together(task_store: Path, tmp_path: Path) -> None:
    chosen = recipe(
        "memory_and_lora", data={"passes": 4, "calls_per_update": 4}, optimizer__max_learning_rate=2e-2
    )
    summary = train(chosen, task_store, tmp_path / "run", options())
    found = rows(summary.run)
    assert found[-1]["loss"] < 0.9 * found[0]["loss"] and min(found[-1]["read_strength"]) > 0
    check = rows(summary.run, "checks.jsonl")[-1]
    # The model without memory is not what it was: its losses move with every check.
    assert (
        check["losses"]["first piece"]["none"]
        != rows(summary.run, "checks.jsonl")[0]["losses"]["first piece"]["none"]
    )
    with open_store(task_store) as store:
        trained = load_trained(summary.run, store, split="validation")
    assert trained.model.memory is not None
    written = export_adapter(summary.run, tmp_path / "adapter")
    names = load_file(written[0])
    assert "transformer.layers.0.self_attn.in_projs.0.lora_A.weight" in names
    assert not any("memory" in name for name in names)


def test_a_run_begins_where_another_ended(adapted: RunSummary, task_store: Path, tmp_path: Path) -> None:
    ended = load_checkpoint(adapted.checkpoint)
    slow = recipe("memory_and_lora", optimizer={"max_learning_rate": 1e-9}, checks=None, data__passes=1)
    summary = train(slow, task_store, tmp_path / "run", options(begin_from=adapted.run))
    begun = load_checkpoint(summary.checkpoint)
    assert begun.progress["from"]["revision_id"] == ended.revision_id
    for name, value in ended.tensors.items():
        if name.startswith("model."):
            torch.testing.assert_close(begun.tensors[name], value, rtol=0, atol=1e-6)
    wrong = [
        (recipe("full"), ConfigError, "has no place"),
        (recipe("lora", lora={**LORA, "scaling": 1.0}), ConfigError, "lora.scaling=2.0"),
        (recipe("lora", lora={**LORA, "depth_rank": 3}), CheckpointError, r"should be \[1, 3, 16\]"),
        (recipe("lora", lora={**LORA, "targets": ["heads"]}), CheckpointError, "unexpected lm.depformer"),
        (recipe("lora", model__weights="seeded:2"), CheckpointError, "model: the checkpoint has"),
    ]
    for chosen, kind, sentence in wrong:
        with pytest.raises(kind, match=sentence):
            train(chosen, task_store, tmp_path / "wrong", options(begin_from=adapted.run))
    assert not (tmp_path / "wrong").exists()


def test_both_families_and_what_a_load_changed(task_store: Path, tmp_path: Path) -> None:
    """A file with 8 depth positions is a Moshi as it is, and a PersonaPlex once it is expanded; the run says so."""
    sizes = recipe("lora").model.architecture(text_card=PIECES)
    source = PersonaPlexLM.seeded(replace(sizes, dep_q=8), 4)
    (tmp_path / "moshi").mkdir()
    save_file(source.state_dict(), tmp_path / "moshi" / "model.safetensors")
    (tmp_path / "moshi" / "config.json").write_text(json.dumps(moshi_config(source.config)))
    for family, expanded, dep_q in (("moshi", 0, 8), ("personaplex", 42, 16)):
        model = {"weights": str(tmp_path / "moshi"), "family": family}
        notes: list[str] = []
        summary = train(
            recipe("lora", model=model, checks=None, data__passes=1),
            task_store,
            tmp_path / family,
            options(),
            reporter=Notes(notes),
        )
        about = json.loads((summary.run / "model.json").read_text())
        assert (len(about["expanded"]), about["sizes"]["dep_q"]) == (expanded, dep_q)
        assert about["cast"] == {"F32 -> BF16": len(PersonaPlexLM(replace(sizes, dep_q=dep_q)).state_dict())}
        assert any("cast F32 -> BF16" in note for note in notes)
        body = json.loads((export_adapter(summary.run, tmp_path / f"{family}-out")[1]).read_text())
        assert body["dep_q"] == dep_q


def test_a_hub_model_that_cannot_be_had(task_store: Path, tmp_path: Path) -> None:
    chosen = recipe("lora", model={"weights": "nobody/no-such-model"})
    with pytest.raises(ConfigError, match="not in the local cache and cannot be downloaded") as caught:
        train(chosen, task_store, tmp_path / "run", options())
    assert "--model PATH" in str(caught.value)


def test_parts_of_the_model_learn_at_their_own_pace(task_store: Path, tmp_path: Path) -> None:
    still = {
        "max_learning_rate": 1e-2,
        "groups": {"depth": {"max_learning_rate": 1e-12, "weight_decay": 0.0}},
    }
    run = train(recipe("lora", optimizer=still, checks=None), task_store, tmp_path / "run", options())
    tensors = load_checkpoint(run.checkpoint).tensors
    depth = [value for name, value in tensors.items() if re.match(r"model\.lm\.depformer.*\.B$", name)]
    assert max(float(value.abs().max()) for value in depth) < 1e-9
    assert float(tensors["model.lm.transformer.layers.0.gating.linear_in.lora.B"].abs().max()) > 1e-3
    with pytest.raises(ConfigError, match="names memory, of which nothing trains"):
        train(recipe("lora", optimizer={"groups": {"memory": {}}}), task_store, tmp_path / "none", options())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"trains": "lora", "lora": {"temporal_rank": 0, "depth_rank": 0}}, "nothing would be trained"),
        ({"trains": "lora", "lora": {"targets": []}}, "at least 1 item"),
        ({"trains": "memory", "data__forward_frames": 100}, "one call at a time"),
        ({"data__window_frames": 5, "data__duration_s": 2.0}, "not both"),
        ({"trains": "memory_and_lora", "model__sizes__layers": 3}, "multiple of four"),
    ],
)
def test_choices_that_make_no_sense_together(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        small_recipe(**wrong)
    assert small_recipe(trains="full", model__sizes__layers=3).model.architecture(text_card=4).layers == 3
    assert small_recipe(data__duration_s=100).data.longest_frames == 1250


def test_runs_without_what_is_asked_for_are_refused(
    adapted: RunSummary, task_store: Path, tmp_path: Path
) -> None:
    memory = train(recipe("memory", data__passes=1, checks=None), task_store, tmp_path / "memory", options())
    full = train(recipe("full", data__passes=1, checks=None), task_store, tmp_path / "full", options())
    with pytest.raises(UsageError, match="only writer and readers were trained"):
        export_model(memory.run, tmp_path / "out")
    with pytest.raises(UsageError, match="export model"):
        export_adapter(full.run, tmp_path / "out")
    with pytest.raises(CheckpointError, match="began with seeded:1"):
        export_model(adapted.run, tmp_path / "out", weights="seeded:2")
    written = export_model(full.run, tmp_path / "whole")
    assert not torch.equal(
        load_file(written[0])["text_linear.weight"],
        PersonaPlexLM.seeded(recipe("full").model.architecture(text_card=PIECES), 1).text_linear.weight,
    )
