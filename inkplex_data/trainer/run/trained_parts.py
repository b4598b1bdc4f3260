"""What of a model trains, by recipe: the memory, adapters, whole tables and heads, or every weight.

What trains is float32, whatever the model computes in: projections, embeddings and norms narrow it where they use it
(`model/layers.py`), so each float32 weight is its own master and nothing is kept twice. What does not train keeps the
type that it was loaded in, has no gradient and no optimiser state.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import Parameter

from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.layers import CodeEmbedding
from inkplex_data.trainer.model.lora import attach_lora
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.speech_model import make_readers
from inkplex_data.trainer.run.optimiser import Group
from inkplex_data.trainer.run.train_config import TrainRecipe

_GROUPS: dict[str, Group] = {
    "emb": "embeddings",
    "text_emb": "embeddings",
    "depformer_emb": "embeddings",
    "depformer_text_emb": "embeddings",
    "text_linear": "heads",
    "linears": "heads",
    "transformer": "temporal",
    "out_norm": "temporal",
    "depformer_in": "depth",
    "depformer": "depth",
}
"""Part of the model by the first word of a parameter's name."""


def group_of(name: str) -> Group:
    """The part of the model that a parameter of `PersonaPlexLM` belongs to."""
    return _GROUPS[name.partition(".")[0]]


def make_model(
    recipe: TrainRecipe, lm: PersonaPlexLM, *, state_width: int | None, wide: bool = True
) -> ConnectedLM:
    """The model as a run of `recipe` begins with it: what trains asks for gradients and is float32, the rest is frozen.

    lm: as it was loaded; it is changed in place. state_width: of the store's states, needed only for memory. wide: False
    leaves it to the caller to widen what trains, part by part.
    """
    lm.freeze()
    readers = None
    if recipe.reads_memory:
        assert state_width is not None
        readers = make_readers(recipe, lm, state_width=state_width)
    if recipe.trains_lora:
        attach_lora(lm, recipe.lora.options(), seed=recipe.seed)
    for name, parameter in lm.named_parameters():
        adapter = name.endswith((".A", ".B"))
        whole = {"embeddings": recipe.lora.embeddings, "heads": recipe.lora.heads}.get(group_of(name), False)
        if recipe.trains == "full" or (recipe.trains_lora and (adapter or whole)):
            parameter.requires_grad_(True)
    if wide:
        widen(lm)
    return ConnectedLM(lm, readers)


def trained_groups(model: ConnectedLM) -> dict[Group, list[Parameter]]:
    """What trains, by part of the model, in the order of the model's parameters."""
    groups: dict[Group, list[Parameter]] = {}
    if model.memory is not None:
        groups["memory"] = [value for value in model.memory.parameters() if value.requires_grad]
    for name, parameter in model.lm.named_parameters():
        if parameter.requires_grad:
            groups.setdefault(group_of(name), []).append(parameter)
    return groups


@torch.no_grad()
def widen(part: nn.Module) -> None:
    """Make float32 what trains of a model or a part of one, one tensor at a time; it goes on computing in the type that it
    had."""
    for module, parameter in _with_modules(part):
        if parameter.requires_grad and parameter.dtype != torch.float32:
            if isinstance(module, CodeEmbedding):
                module.output_dtype = parameter.dtype
            parameter.data = parameter.data.float()


@torch.no_grad()
def narrow(lm: PersonaPlexLM, dtype: torch.dtype) -> None:
    """Bring what `widen` widened back to `dtype`, adapters aside, for a model that only speaks from now on."""
    for name, parameter in lm.named_parameters():
        if not name.endswith((".A", ".B")):
            parameter.data = parameter.data.to(dtype)
    lm.freeze()


def _with_modules(lm: nn.Module) -> Iterator[tuple[nn.Module, Parameter]]:
    for module in lm.modules():
        for parameter in module.parameters(recurse=False):
            yield module, parameter
