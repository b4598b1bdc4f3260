"""A trained speech model out of a run, for `export`: its adapters as they are, or its weights with all that trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from inkplex_data.errors import CheckpointError, UsageError
from inkplex_data.export.model_layouts import LowRankPair, write_adapter, write_model
from inkplex_data.trainer.model.lora import attach_lora, merge_lora, projections
from inkplex_data.trainer.model.model_files import find_model
from inkplex_data.trainer.model.moshi_config import moshi_config
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.model.speech_model import load_speech_model
from inkplex_data.trainer.run.checkpoint import Checkpoint, load_checkpoint
from inkplex_data.trainer.run.run_files import recipe_of
from inkplex_data.trainer.run.run_state import MODEL, find_checkpoint, restore_module
from inkplex_data.trainer.run.train_config import TrainRecipe
from inkplex_data.trainer.run.trained_parts import make_model, narrow

_SPEECH = f"{MODEL}lm."


def export_adapter(run: Path, folder: Path) -> list[Path]:
    """Write the adapters of a run or checkpoint, and what trained whole beside them; the base model is not read.

    Raises CheckpointError where there is no checkpoint, UsageError for a run without adapters.
    """
    checkpoint, recipe = _speech_of(run)
    if not recipe.trains_lora:
        raise UsageError(
            f"a run that trains {recipe.trains} has no adapters",
            where=str(run),
            next_step="Write the whole model with `export model`.",
        )
    config = _sizes(checkpoint)
    with torch.device("meta"):
        lm = PersonaPlexLM(config)
    attach_lora(lm, recipe.lora.options(), seed=recipe.seed)
    tensors = {name.removeprefix(_SPEECH): value for name, value in checkpoint.tensors.items()}
    pairs = {}
    for projection in projections(lm):
        rows, columns = projection.weight.shape
        base = projection.name.removesuffix(".weight")
        name = f"{base}.lora" if projection.slot == "lora" else base.replace("in_proj_weight", "in_proj_lora")
        pairs[projection.name] = LowRankPair(
            projection.parts, rows, columns, tensors.pop(f"{name}.A", None), tensors.pop(f"{name}.B", None)
        )
    return write_adapter(
        folder,
        pairs,
        tensors,
        scaling=recipe.lora.scaling,
        config=moshi_config(config),
        about=_about(checkpoint),
    )


def export_model(run: Path, folder: Path, *, weights: str | None = None) -> list[Path]:
    """Write the speech model of a run or checkpoint with everything that trained, under its released names.

    Adapters are added to their weights in float32 and rounded once to the type of the recipe. weights: where the
    weights before training lie now, as in the recipe by default. Raises CheckpointError for other weights than those,
    UsageError for a run that trained memory alone.
    """
    checkpoint, recipe = _speech_of(run)
    config = recipe.model if weights is None else recipe.model.model_copy(update={"weights": weights})
    files = None if config.seed is not None else find_model(config.weights)
    speech = load_speech_model(config, files, _sizes(checkpoint))
    if speech.identity != checkpoint.compatibility["model"]:
        raise CheckpointError(
            f"the run began with {checkpoint.compatibility['model']}, these weights are {speech.identity}",
            where=config.weights,
            next_step="Give the weights that the run began with: --model PATH.",
        )
    dtype = speech.lm.text_emb.weight.dtype
    alone = recipe.model_copy(update={"trains": "lora" if recipe.trains_lora else "full"})
    model = make_model(alone, speech.lm, state_width=None)
    restore_module(checkpoint, model)
    merge_lora(model.lm)
    narrow(model.lm, dtype)
    state = {name: value.contiguous() for name, value in model.lm.state_dict().items()}
    return write_model(folder, state, config=moshi_config(model.lm.config), about=_about(checkpoint))


def _speech_of(run: Path) -> tuple[Checkpoint, TrainRecipe]:
    """A checkpoint's tensors of the speech model, and its recipe."""
    path = find_checkpoint(run)
    checkpoint = load_checkpoint(path, only=_SPEECH)
    recipe = recipe_of(checkpoint, path)
    if not recipe.trains_speech:
        raise UsageError(
            "only writer and readers were trained: the speech model is still the one that the run began with",
            where=str(run),
            next_step="Use that model, and `generate` to hear it with its memory.",
        )
    return checkpoint, recipe


def _sizes(checkpoint: Checkpoint) -> PersonaPlexConfig:
    return PersonaPlexConfig(**checkpoint.compatibility["model_sizes"])


def _about(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint_id": checkpoint.checkpoint_id,
        "revision_id": checkpoint.revision_id,
        "update": checkpoint.progress["update"],
        "base_model": checkpoint.compatibility["model"],
    }
