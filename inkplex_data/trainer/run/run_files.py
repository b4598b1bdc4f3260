"""From a checkpoint, or a run's folder, back to the model that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inkplex_data.checkpoint_sidecar import check_compatibility
from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.store.reader import Store
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.speech_model import (
    SpeechModel,
    StoreIdentity,
    open_speech_model,
    store_identity,
)
from inkplex_data.trainer.run.checkpoint import Checkpoint, load_checkpoint
from inkplex_data.trainer.run.checks import PANEL_FILE
from inkplex_data.trainer.run.run_state import (
    CHECKPOINTS,
    MODEL,
    compatibility,
    find_checkpoint,
    restore_module,
)
from inkplex_data.trainer.run.train_config import TrainRecipe
from inkplex_data.trainer.run.trained_parts import make_model, narrow

__all__ = ["PANEL_FILE", "TrainedModel", "find_checkpoint", "load_trained"]


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint's model on one device, and what it was checked against."""

    model: ConnectedLM
    recipe: TrainRecipe
    checkpoint: Checkpoint
    path: Path
    speech: SpeechModel
    store: StoreIdentity

    @property
    def run(self) -> Path:
        """The run's folder, or the checkpoint's where it lies alone."""
        return self.path.parent.parent if self.path.parent.name == CHECKPOINTS else self.path.parent

    @property
    def update(self) -> int:
        return int(self.checkpoint.progress["update"])

    def provenance(self) -> dict[str, Any]:
        """Which state of which model this is, as JSON values."""
        return {
            "checkpoint_id": self.checkpoint.checkpoint_id,
            "revision_id": self.checkpoint.revision_id,
            "update": self.update,
            "untrained_model": self.speech.untrained,
            **self.store.flags(),
            "weights": self.speech.report.text(),
        }


def recipe_of(checkpoint: Checkpoint, path: Path) -> TrainRecipe:
    """The recipe that a checkpoint was trained with. Raises CheckpointError where it has none that can be read."""
    try:
        return TrainRecipe.model_validate(checkpoint.progress["recipe"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"its recipe cannot be read: {error}", where=str(path)) from error


def load_trained(
    path: Path,
    store: Store,
    *,
    split: str,
    device: torch.device | str = "cpu",
    weights: str | None = None,
) -> TrainedModel:
    """The model of a checkpoint or run, checked against a store's tokenizer, codec and widths.

    weights: where the weights before training lie now, as in the recipe by default. An untrained codec and states of an
    untrained model are allowed, because they were when training. Raises CheckpointError for what does not fit, ConfigError for a
    split without memory.
    """
    path = find_checkpoint(path)
    checkpoint = load_checkpoint(path, only=MODEL)
    recipe = recipe_of(checkpoint, path)
    config = recipe.model if weights is None else recipe.model.model_copy(update={"weights": weights})
    identity = store_identity(store, split=split, allow_untrained_codec=True, memory=recipe.reads_memory)
    speech = open_speech_model(config, identity, device=device)
    dtype = speech.lm.text_emb.weight.dtype
    model = make_model(recipe, speech.lm, state_width=identity.state_width)
    wanted = compatibility(speech, identity, model.memory)
    check_compatibility(checkpoint.compatibility, wanted, where=str(path))
    restore_module(checkpoint, model)
    narrow(model.lm, dtype)
    return TrainedModel(model.eval(), recipe, checkpoint, path, speech, identity)


def begin_from(
    path: Path, model: ConnectedLM, recipe: TrainRecipe, compatibility: Mapping[str, Any]
) -> dict[str, Any]:
    """Take over what another run has trained, from its checkpoint; returns which state that was, as JSON values.

    model: of a run of `recipe` with these compatibility fields, as it begins. Parts that the other run did not train
    stay. Raises CheckpointError for another base model, tokenizer, codec, reasoning model or other shapes, ConfigError where something
    that it trained has no place here.
    """
    start = load_checkpoint(path, only=MODEL)
    names = ["model", "model_sizes", "tokenizer_sha256", "codec"]
    # A run that read no memory has nothing to say of states.
    names += ["model_states"] if "model_states" in compatibility.keys() & start.compatibility.keys() else []
    wanted = {name: compatibility[name] for name in names}
    check_compatibility(start.compatibility, wanted, where=str(path))
    theirs = recipe_of(start, path)
    if theirs.trains_lora and recipe.trains_lora and theirs.lora.scaling != recipe.lora.scaling:
        raise ConfigError(
            f"its adapters have a scaling of {theirs.lora.scaling}, this recipe has {recipe.lora.scaling}",
            where=str(path),
            next_step=f"Give --set lora.scaling={theirs.lora.scaling}.",
        )
    if theirs.trains_speech and (theirs.trains == "full") != (recipe.trains == "full"):
        raise ConfigError(
            f"a run that trains {recipe.trains} has no place for what a run that trains {theirs.trains} has learned",
            where=str(path),
            next_step="Write its model with `export model`, and begin with that: --model FOLDER.",
        )
    restore_module(start, model, some=True)
    update = int(start.progress["update"])
    return {"checkpoint_id": start.checkpoint_id, "revision_id": start.revision_id, "update": update}
