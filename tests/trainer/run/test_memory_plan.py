"""The arithmetic of `train --plan` against models that were really made, on the meta device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inkplex_data.trainer.memory.connector import MemoryReaders
from inkplex_data.trainer.model.lora import LoraOptions, attach_lora, projections
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.run.memory_plan import (
    GIB,
    linear_maps,
    lora_parameters,
    memory_parameters,
    parameters,
    plan_memory,
)
from inkplex_data.trainer.run.train_config import load_train_recipe
from inkplex_data.trainer.run.trained_parts import group_of
from tests.trainer.conftest import small_config
from tests.trainer.made_recipe import small_recipe

MODELS = [PersonaPlexConfig(), PersonaPlexConfig(dep_q=8), small_config(), small_config(layers=3, dep_q=8)]


def on_meta(config: PersonaPlexConfig) -> PersonaPlexLM:
    with torch.device("meta"):
        return PersonaPlexLM(config)


@pytest.mark.parametrize("config", MODELS)
def test_every_parameter_is_counted(config: PersonaPlexConfig) -> None:
    lm = on_meta(config)
    found = dict.fromkeys(("temporal", "depth", "embeddings", "heads"), 0)
    for name, value in lm.named_parameters():
        found[group_of(name)] += value.numel()
    assert parameters(config) == found
    assert sum(parameters(PersonaPlexConfig()).values()) == 8_371_408_896
    assert sum(parameters(PersonaPlexConfig(dep_q=8)).values()) == 7_687_729_152
    # Every wrapped weight, by kind.
    wrapped: dict[tuple[str, str], int] = {}
    for projection in projections(lm):
        key = (projection.stage, projection.target)
        wrapped[key] = wrapped.get(key, 0) + projection.weight.numel()
    counted: dict[tuple[str, str], int] = {}
    for maps in linear_maps(config):
        key = (maps.stage, maps.target)
        counted[key] = counted.get(key, 0) + maps.count * maps.rows * maps.columns
    assert counted == wrapped


@pytest.mark.parametrize("config", MODELS)
@pytest.mark.parametrize(
    "options",
    [
        LoraOptions(),
        LoraOptions(temporal_rank=5, depth_rank=0),
        LoraOptions(temporal_rank=0, depth_rank=3, targets=("attention", "depth_input")),
    ],
)
def test_every_adapter_is_counted(config: PersonaPlexConfig, options: LoraOptions) -> None:
    lm = on_meta(config)
    found = sum(p.lora.A.numel() + p.lora.B.numel() for p in attach_lora(lm, options, seed=0))
    assert lora_parameters(config, options) == found > 0


def test_writer_and_readers_are_counted() -> None:
    assert memory_parameters(PersonaPlexConfig(), state_width=4096, slot_width=1024) == 184_691_712
    with torch.device("meta"):
        readers = MemoryReaders(small_config(), state_width=12, slot_width=16)
    found = sum(value.numel() for value in readers.parameters())
    assert memory_parameters(small_config(), state_width=12, slot_width=16) == found


def planned(name: str, gib: float = 80, **changes: Any) -> Any:
    recipe = load_train_recipe(name, changes)
    config = recipe.model.architecture(text_card=32_000)
    return plan_memory(recipe, config, state_width=4096, gpu_bytes=int(gib * GIB))


def test_plans_of_the_package_s_recipes() -> None:
    lora = planned("finetune_lora")
    assert lora.fixed["frozen weights"] == 2 * 7_687_729_152
    assert lora.fixed["optimiser"] == 2 * lora.fixed["gradients"] == 8 * lora.trained
    assert lora.forward_frames == 1250 and lora.largest_frames > 1250 and "this fits" in lora.text()
    assert "3,000 frames (240 s), prefix included, all that the model attends to" in lora.text()
    full = planned("finetune_full")
    assert full.trained == full.total == 7_687_729_152 and full.fixed["frozen weights"] == 0
    assert full.largest_frames == 0 and "does not fit, however short" in full.text()
    both, memory = planned("memory_and_lora"), planned("memory")
    assert memory.trained == 184_691_712
    attention, feed_forward = (3 + 1 + 1 + 1) * 4096, 3 * 11_264 + 2 * 4096
    assert both.trained - memory.trained == 32 * 128 * (attention + feed_forward)
    # Without running blocks again, a window costs many times as much.
    kept = planned("finetune_lora", **{"model.recompute": False})
    assert kept.frame_bytes > 4 * lora.frame_bytes


def test_activations_are_an_upper_bound_of_what_autograd_keeps() -> None:
    """Bytes of all tensors that a forward really saves, against the arithmetic, for a model of uneven sizes."""
    config = small_config(dim=64, ffn_hidden_temporal=160, depth_dim=32, ffn_hidden_depth=72, text_card=90)
    recipe = small_recipe(
        trains="lora",
        lora={"temporal_rank": 4, "depth_rank": 2},
        model__sizes__dim=64,
        model__dtype="float32",
    )
    lm = PersonaPlexLM.seeded(config, 0).freeze()
    attach_lora(lm, recipe.lora.options(), seed=0)
    weights = {value.untyped_storage().data_ptr() for value in lm.parameters()}
    steps = 32
    kept: dict[int, int] = {}

    def keep(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return value

    codes = torch.zeros(1, 17, steps, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        out = lm.forward_train(codes)
        loss = torch.nn.functional.cross_entropy(out.text_logits.flatten(0, 2), codes[0, 0])
        loss = loss + out.logits[:, :, :-1].float().square().sum()
    plan = plan_memory(recipe, config, state_width=None, gpu_bytes=GIB)
    assert loss.requires_grad
    assert 0.4 < sum(kept.values()) / (plan.frame_bytes * steps) < 1
