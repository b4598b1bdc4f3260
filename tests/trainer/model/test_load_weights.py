"""Weights of other spellings and with fewer depth positions load completely, or say what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.trainer.model.load_weights import RELEASED, load_personaplex, load_reported
from inkplex_data.trainer.model.model_files import find_model
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.run.train_config import ModelConfig, load_train_recipe
from tests.trainer.conftest import random_codes, small_config


def saved(path: Path, state: dict[str, Tensor]) -> Path:
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    return path


def split_attention(state: dict[str, Tensor], config: PersonaPlexConfig) -> dict[str, Tensor]:
    """Kyutai's newer names: one entry for each slice of a packed attention weight."""
    out = {}
    for name, value in state.items():
        slices = config.dep_q if name.startswith("depformer.") else 1
        if name.endswith("self_attn.in_proj_weight"):
            base, key = name.removesuffix("in_proj_weight"), "in_projs"
        elif name.endswith("self_attn.out_proj.weight"):
            base, key = name.removesuffix("out_proj.weight"), "out_projs"
        else:
            out[name] = value
            continue
        out |= {f"{base}{key}.{i}.weight": part.clone() for i, part in enumerate(value.chunk(slices))}
    return out


def same_logits(first: PersonaPlexLM, second: PersonaPlexLM) -> bool:
    codes = random_codes(first.config, 6)
    ours, theirs = first.forward_train(codes), second.forward_train(codes)
    return torch.equal(ours.text_logits, theirs.text_logits) and torch.equal(
        torch.nan_to_num(ours.logits), torch.nan_to_num(theirs.logits)
    )


@pytest.mark.parametrize("split", [False, True])
def test_both_spellings_load_frozen_and_whole(tmp_path: Path, split: bool) -> None:
    config = small_config()
    source = PersonaPlexLM.seeded(config, 3)
    state = source.state_dict()
    path = saved(tmp_path / "model.safetensors", split_attention(state, config) if split else state)
    model = load_personaplex(tmp_path if split else path, config, dtype=torch.float32)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not model.training
    assert same_logits(model, source)
    assert load_personaplex(path, config).text_emb.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("split", [False, True])
def test_eight_positions_become_sixteen(tmp_path: Path, split: bool) -> None:
    """Attention slices repeat; groups 8 … 15 are copies of 0 … 7 (seeds/000, section 2)."""
    eight = small_config(dep_q=8)
    source = PersonaPlexLM.seeded(eight, 3).state_dict()
    path = saved(tmp_path / "moshi.safetensors", split_attention(source, eight) if split else source)
    model, report = load_reported(path, small_config(), dtype=torch.float32)
    state = model.state_dict()
    attention = {name for name in source if "self_attn" in name and name.startswith("depformer")}
    assert set(report.expanded) == (set(state) - set(source)) | attention
    assert report.text() == f"{len(report.expanded)} tensors expanded to more depth positions"
    assert (state["depformer_emb.7.weight"] == 0).all()
    for name in source:
        if "self_attn" in name and name.startswith("depformer"):
            assert torch.equal(state[name], torch.cat([source[name]] * 2))
        else:
            assert torch.equal(state[name], source[name])
    for name in set(state) - set(source) - {"depformer_emb.7.weight"}:
        origin = re.sub(r"\.(8|9|1[0-5])\.", lambda found: f".{int(found[1]) - 8}.", name)
        assert torch.equal(state[name], source[origin])
        assert state[name].data_ptr() != state[origin].data_ptr()
    # The first eight positions compute what the smaller model computes.
    small = PersonaPlexLM(eight)
    small.load_state_dict(source)
    codes = random_codes(eight, 6)
    ours, theirs = model.forward_train(codes), small.forward_train(codes)
    torch.testing.assert_close(ours.logits[:, :8], theirs.logits, atol=1e-6, rtol=0, equal_nan=True)


def test_what_is_cast_is_told_and_what_is_taken_as_it_is_is_not(tmp_path: Path) -> None:
    state = PersonaPlexLM.seeded(small_config(), 3).state_dict()
    path = saved(tmp_path / "model.safetensors", state)
    for dtype, told in ((torch.float32, ""), (torch.bfloat16, f"{len(state)} tensors cast F32 -> BF16")):
        assert load_reported(path, small_config(), dtype=dtype)[1].text() == told


def test_the_released_weights_are_found_beside_or_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    released = RELEASED["personaplex"]
    assert ModelConfig().weights == released == load_train_recipe("train_stage1").model.weights
    assert ModelConfig(family="moshi").weights == RELEASED["moshi"]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match="is not in the local cache and cannot be downloaded") as caught:
        find_model(released)
    assert "Accept the licence" in str(caught.value)
    beside = Path("personaplex-7b-v1/model.safetensors")
    beside.parent.mkdir()
    beside.touch()
    assert find_model(released).weights == beside == find_model("personaplex-7b-v1").weights
    own = Path(released, "model.safetensors")
    own.parent.mkdir(parents=True)
    own.touch()
    assert find_model(released).weights == own
    with pytest.raises(CheckpointError, match="no model weights here"):
        find_model("nowhere")


def test_misfits_are_named_together(tmp_path: Path) -> None:
    config = small_config()
    state = PersonaPlexLM.seeded(config, 3).state_dict()
    del state["text_linear.weight"]
    state["condition.weight"] = torch.zeros(1)
    state["emb.3.weight"] = torch.zeros(2, 2)
    with pytest.raises(CheckpointError) as caught:
        load_personaplex(saved(tmp_path / "m.safetensors", state), config)
    text = str(caught.value)
    for part in (
        "missing text_linear.weight",
        "unexpected condition.weight",
        "emb.3.weight is [2, 2], should be [25, 32]",
    ):
        assert part in text
    state = split_attention(PersonaPlexLM.seeded(config, 3).state_dict(), config)
    del state["depformer.layers.0.self_attn.in_projs.2.weight"]
    with pytest.raises(CheckpointError, match=r"not numbered 0 … 14"):
        load_personaplex(saved(tmp_path / "m.safetensors", state), config)


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model weights here"):
        load_personaplex(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_personaplex(tmp_path)
