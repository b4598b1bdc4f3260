"""The layout of the public `moshi` package: what it computed from our files is what we compute."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.export.model_layouts import LowRankPair, projection_names, write_adapter
from inkplex_data.trainer.model.load_weights import load_personaplex
from inkplex_data.trainer.model.lora import LoraOptions, attach_lora, merge_lora, projections
from inkplex_data.trainer.model.model_files import find_model
from inkplex_data.trainer.model.moshi_config import moshi_config, sizes_of
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from tests.trainer.conftest import small_config

RANK = 3


def base_model(folder: Path) -> PersonaPlexLM:
    files = find_model(str(folder / "base"))
    config = files.sizes(dep_q=8)
    assert config is not None
    return load_personaplex(files.weights, config, dtype=torch.float32)


def with_adapter(folder: Path) -> tuple[PersonaPlexLM, dict[str, Tensor]]:
    """The golden model with the pairs of `lora.safetensors` in our own places."""
    lm, tensors = base_model(folder), load_file(folder / "adapter" / "lora.safetensors")
    attach_lora(lm, LoraOptions(temporal_rank=RANK, depth_rank=RANK), seed=0)
    for projection in projections(lm):
        names = projection_names(projection.name, projection.parts)
        projection.lora.A.data = torch.stack([tensors[f"{name}.lora_A.weight"] for name in names])
        projection.lora.B.data = torch.stack([tensors[f"{name}.lora_B.weight"] for name in names])
    return lm, tensors


def furthest(lm: PersonaPlexLM, golden: dict[str, Tensor], prefix: str = "") -> float:
    with torch.no_grad():
        out = lm.forward_train(golden["codes"])
    pairs = ((out.text_logits, "text_logits"), (out.logits, "logits"))
    return max(
        float((ours.nan_to_num() - golden[prefix + name].nan_to_num()).abs().max()) for ours, name in pairs
    )


def test_base_adapter_and_merged_weights_give_moshi_s_own_logits(golden: Path) -> None:
    folder = golden / "moshi_lora"
    values = load_file(folder / "logits.safetensors")
    assert furthest(base_model(folder), values, "base_") < 1e-5
    assert furthest(base_model(folder), values) > 0.1
    lm, _ = with_adapter(folder)
    assert furthest(lm, values) < 1e-5
    assert furthest(merge_lora(lm), values) < 1e-5


def test_the_adapter_is_written_as_moshi_read_it(golden: Path, tmp_path: Path) -> None:
    """Names, ranks filled up with zeros, and the keys of `config.json`."""
    folder = golden / "moshi_lora"
    lm, tensors = with_adapter(folder)
    pairs = {}
    for projection in projections(lm):
        rank = RANK if projection.stage == "temporal" else 2
        first, second = projection.lora.A.data[:, :rank], projection.lora.B.data[:, :, :rank]
        bare = projection.target == "depth_input"
        pairs[projection.name] = LowRankPair(
            projection.parts, *projection.weight.shape, None if bare else first, None if bare else second
        )
    config = moshi_config(lm.config)
    write_adapter(tmp_path / "out", pairs, {}, scaling=2.0, config=config, about={"base_model": "x"})
    written = load_file(tmp_path / "out" / "lora.safetensors")
    assert written.keys() == tensors.keys()
    assert all(torch.equal(value, tensors[name]) for name, value in written.items())
    body = json.loads((tmp_path / "out" / "config.json").read_text())
    assert body == json.loads((folder / "adapter" / "config.json").read_text())
    assert {key: body[key] for key in ("lora", "lora_rank", "lora_scaling", "lora_name")} == {
        "lora": True,
        "lora_rank": RANK,
        "lora_scaling": 2.0,
        "lora_name": "lora.safetensors",
    }
    empty = {name: LowRankPair(pair.parts, pair.rows, pair.columns) for name, pair in pairs.items()}
    with pytest.raises(UsageError, match="no adapter was trained"):
        write_adapter(tmp_path / "none", empty, {}, scaling=2.0, config=config, about={})


def test_the_released_configuration_is_spelled_as_moshi_spells_it() -> None:
    """Values of `_lm_kwargs` in moshi 0.2.13, `models/loaders.py`."""
    body = moshi_config(PersonaPlexConfig(dep_q=8))
    assert (body["hidden_scale"], body["depformer_dim_feedforward"]) == (4.125, int(4.125 * 1024))
    assert (body["dim"], body["num_heads"], body["num_layers"], body["card"]) == (4096, 32, 32, 2048)
    assert (body["n_q"], body["dep_q"], body["context"], body["text_card"]) == (16, 8, 3000, 32_000)
    assert sizes_of(body, where="x") == PersonaPlexConfig(dep_q=8)


@pytest.mark.parametrize("hidden", [8, 42, 43, 48, 85, 86, 127])
@pytest.mark.parametrize("width", [16, 24, 32])
def test_every_width_survives_the_configuration(hidden: int, width: int) -> None:
    config = small_config(dim=width, ffn_hidden_temporal=hidden, depth_dim=width, ffn_hidden_depth=hidden)
    try:
        body = moshi_config(config)
    except ConfigError as error:
        assert re.search(r"cannot spell a gated width", str(error)) and hidden % 2
        return
    assert sizes_of(json.loads(json.dumps(body)), where="x") == config


def test_another_architecture_is_refused_with_all_that_differs() -> None:
    body = moshi_config(small_config())
    del body["n_q"]
    body |= {"gating": "none", "norm": "layer_norm"}
    with pytest.raises(ConfigError) as caught:
        sizes_of(body, where="folder/config.json")
    assert len(caught.value.faults) == 3
    with pytest.raises(ConfigError, match="cannot be used"):
        sizes_of({**moshi_config(small_config()), "delays": 3}, where="x")
