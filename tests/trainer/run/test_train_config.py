from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.errors import ConfigError
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig
from inkplex_data.trainer.run.objective import PRESETS
from inkplex_data.trainer.run.train_config import load_train_recipe, recipe_differences, train_recipe_names
from tests.trainer.made_recipe import small_recipe


def test_the_recipes_of_the_package_load() -> None:
    names = ["demo", "demo_voice", "finetune_full", "finetune_lora", "memory_and_lora", "stage1"]
    assert train_recipe_names() == [f"train_{name}" for name in names]
    for name in names:
        assert load_train_recipe(name) == load_train_recipe(f"train_{name}")
        assert load_train_recipe(name).name == f"train_{name}"
    assert load_train_recipe("memory") == load_train_recipe("train_stage1")


def test_fine_tuning_is_the_public_recipe() -> None:
    """Settings that the public Moshi fine-tuning recipe recommends (its README): rank 128, scaling 2, 100 s, 16 calls."""
    for name, trains in (("finetune_lora", "lora"), ("finetune_full", "full")):
        recipe = load_train_recipe(name)
        optimizer = recipe.optimizer
        assert recipe.trains == trains and recipe.model.architecture(text_card=32_000).dep_q == 8
        assert (recipe.lora.temporal_rank, recipe.lora.depth_rank, recipe.lora.scaling) == (128, 128, 2.0)
        assert (optimizer.max_learning_rate, optimizer.weight_decay, optimizer.warmup) == (2e-6, 0.1, 0.05)
        assert recipe.data.longest_frames == 1250 and recipe.data.calls_per_update == 16
        weights = recipe.objective.make()
        assert (weights.semantic / weights.acoustic, weights.pad, weights.epad) == (100, 0.5, 0.5)


def test_stage1_is_the_document() -> None:
    """seeds/000, "Current sequence memory", sections 1, 10 and 11."""
    recipe = load_train_recipe("train_stage1")
    optimizer = recipe.optimizer
    assert recipe.model.architecture(text_card=32_000) == PersonaPlexConfig()
    assert recipe.objective.make() == PRESETS["stage1"]
    assert (optimizer.max_learning_rate, optimizer.weight_decay) == (2e-5, 0.01)
    assert (optimizer.warmup, optimizer.clip_norm) == (0.05, 1.0)
    assert (recipe.data.passes, recipe.data.calls_per_update, recipe.memory.slot_width) == (4, 32, 1024)
    assert recipe.checks is not None
    assert (recipe.checks.tasks, recipe.checks.margin_nats) == (48, 0.01)


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "model: {weights: 'seeded:x'}\nobjective: {preset: other}\ndata: {passes: 0, colour: red}\n"
        "optimizer: {max_learning_rate: 3}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_train_recipe(str(path), {"checks.margin_nats": -1})
    keys = {fault.split(":")[0] for fault in caught.value.faults}
    assert keys == {
        "model.weights",
        "objective.preset",
        "data.passes",
        "data.colour",
        "optimizer.max_learning_rate",
        "checks.margin_nats",
    }


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [({"layers": 6}, "multiple of four"), ({"dim": 30, "heads": 4}, "does not split"), (None, None)],
)
def test_sizes_are_checked_before_anything_is_read(sizes: dict[str, int] | None, fault: str | None) -> None:
    if fault is None:
        assert small_recipe(model__sizes=None).model.architecture(text_card=7).text_card == 7
        return
    with pytest.raises(ValueError, match=fault):
        small_recipe(model__sizes=sizes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"seed": 2**63},
        {"model__weights": "seeded:99999999999999999999"},
        {"objective__weights": dict.fromkeys(("first_piece", "later_piece", "pad", "epad", "semantic", "acoustic"), 0)},
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_it_runs(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"greater than|less than|seeded:NUMBER|nothing would be learned"):
        small_recipe(**wrong)


def test_weights_of_other_sizes_say_theirs() -> None:
    assert small_recipe(model__weights="folder", model__sizes=None).model.architecture(text_card=7) == (
        PersonaPlexConfig()
    )
    small = small_recipe(model__weights="folder").model
    assert small.architecture(text_card=7).dim == 16 and small.seed is None


def test_overrides_and_unknown_names() -> None:
    assert load_train_recipe("train_demo", {"data.passes": 3}).data.passes == 3
    with pytest.raises(ConfigError, match="no training recipe"):
        load_train_recipe("train_nothing")


def test_differences_name_keys_and_both_values() -> None:
    one, other = small_recipe(), small_recipe(data__passes=9, name="renamed", checkpoints__keep=7)
    assert recipe_differences(one.decisive(), other.decisive()) == [
        "data.passes: the run has 2, this recipe 9"
    ]
