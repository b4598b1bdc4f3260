"""Trained speech models in the layout of the public `moshi` package: adapters beside a base model, or merged weights.

    ADAPTER/lora.safetensors  ADAPTER/config.json      MODEL/model.safetensors  MODEL/config.json

An adapter's names and its keys `lora`, `lora_rank` and `lora_scaling` are those that `moshi` 0.2.13 reads: it gives
every linear map a pair of one rank and one scaling, so maps without a pair get zeros, and lower ranks are filled up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inkplex_data.atomic import new_folder, write_json
from inkplex_data.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

LORA_FILE: Final = "lora.safetensors"
MODEL_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"
_PACKED: Final = {"in_proj_weight": "in_projs", "out_proj.weight": "out_projs"}
"""Attention weights that hold one map for each depth position, and the list in which `moshi` keeps them apart."""


@dataclass(frozen=True)
class LowRankPair:
    """The maps [P · out, in] of one packed weight, and what training adds to them: scaling · B A.

    A: float32 [P, rank, in], B: [P, out, rank]; both None where the weight has no adapter.
    """

    parts: int
    rows: int
    columns: int
    A: Tensor | None = None
    B: Tensor | None = None


def write_adapter(
    folder: Path,
    pairs: Mapping[str, LowRankPair],
    whole: Mapping[str, Tensor],
    *,
    scaling: float,
    config: Mapping[str, Any],
    about: Mapping[str, str],
) -> list[Path]:
    """Write an adapter into a new or empty folder; returns its files.

    pairs: every linear map of the model, by the name of its weight in the released files. whole: tensors that trained
    whole. config: the base model's `config.json`. about: words for the file's header. Raises UsageError where there is
    nothing to write or the folder holds something.
    """
    rank = max((pair.A.shape[1] for pair in pairs.values() if pair.A is not None), default=0)
    if not rank:
        raise UsageError("no adapter was trained", next_step="Write the merged weights with `export model`.")
    tensors = {name: value.contiguous() for name, value in whole.items()}
    for name, pair in pairs.items():
        tensors |= _named(name, pair, rank)
    body = {**config, "lora": True, "lora_rank": rank, "lora_scaling": scaling, "lora_name": LORA_FILE}
    return _write(folder, LORA_FILE, tensors, body, about)


def write_model(
    folder: Path, tensors: Mapping[str, Tensor], *, config: Mapping[str, Any], about: Mapping[str, str]
) -> list[Path]:
    """Write a whole model under its released names into a new or empty folder; returns its files."""
    return _write(folder, MODEL_FILE, {**tensors}, config, about)


def projection_names(weight: str, parts: int) -> list[str]:
    """The modules that `moshi` makes of one packed weight.

    >>> projection_names("depformer.layers.0.self_attn.in_proj_weight", 2)
    ['depformer.layers.0.self_attn.in_projs.0', 'depformer.layers.0.self_attn.in_projs.1']
    >>> projection_names("text_linear.weight", 1)
    ['text_linear']
    """
    for packed, listed in _PACKED.items():
        if weight.endswith(f".self_attn.{packed}"):
            return [f"{weight.removesuffix(packed)}{listed}.{part}" for part in range(parts)]
    return [weight.removesuffix(".weight")]


def _named(weight: str, pair: LowRankPair, rank: int) -> dict[str, Tensor]:
    import torch

    first = torch.zeros(pair.parts, rank, pair.columns)
    second = torch.zeros(pair.parts, pair.rows // pair.parts, rank)
    if pair.A is not None and pair.B is not None:
        own = pair.A.shape[1]
        first[:, :own], second[:, :, :own] = pair.A, pair.B
    out = {}
    for part, name in enumerate(projection_names(weight, pair.parts)):
        out[f"{name}.lora_A.weight"] = first[part].clone()
        out[f"{name}.lora_B.weight"] = second[part].clone()
    return out


def _write(
    folder: Path, name: str, tensors: dict[str, Tensor], config: Mapping[str, Any], about: Mapping[str, str]
) -> list[Path]:
    from safetensors.torch import save_file

    with new_folder(folder) as making:
        save_file(tensors, making / name, metadata={"format": "pt", "inkplex": json.dumps(about)})
        write_json(making / CONFIG_FILE, dict(config), indent=2)
    return [folder / name, folder / CONFIG_FILE]
