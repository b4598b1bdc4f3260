from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from tests.memory.asked import Asked
from tests.memory.tiny import save_text_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of `InklingForCausalLM`; not to be written to."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    save_text_model(path)
    return path


def dtypes(model: torch.nn.Module) -> dict[str, torch.dtype]:
    return {name: tensor.dtype for name, tensor in model.state_dict().items()}


def test_the_small_model_is_seeded_marked_and_has_every_block(small_inkling: Inkling) -> None:
    state = torch.get_rng_state()
    model = load_inkling("small:0", device="cpu")
    assert torch.equal(torch.get_rng_state(), state), "the process's own random numbers are left alone"
    assert model.identity.as_dict() == {
        "id": "small:0",
        "sha256": small_inkling.identity.sha256,
        "untrained": True,
        "width": 64,
        "dtype": "float32",
    }
    assert load_inkling("small:1").identity.sha256 != model.identity.sha256
    config = model.text.config
    assert len(model.text.layers) == 42
    assert [index for index, kind in enumerate(config.layer_types) if kind == "hybrid"] == list(
        range(5, 42, 6)
    )
    assert config.mlp_layer_types == ["dense"] * 2 + ["sparse"] * 40
    assert model.vocabulary == 201_024


def test_bfloat16_keeps_in_float32_what_transformers_does(folder: Path, small_inkling: Inkling) -> None:
    checkpoint = load_inkling(str(folder), dtype="bfloat16", device="cpu")
    rounded = load_inkling("small:0", dtype="bfloat16", device="cpu")
    assert dtypes(rounded.text) == dtypes(checkpoint.text)
    assert {torch.float32, torch.bfloat16} == set(dtypes(rounded.text).values())
    for name, tensor in small_inkling.text.state_dict().items():
        ours = rounded.text.state_dict()[name]
        assert torch.equal(ours, tensor.to(ours.dtype)), name
    assert rounded.identity.dtype == "bfloat16"
    assert rounded.rows(Asked(0, 3).ids, None).dtype == torch.bfloat16


def rows(model: Inkling) -> torch.Tensor:
    return model.rows(Asked(0, 12, vocabulary=290).ids, None)


def test_checkpoints_of_both_classes_load_with_their_weights(
    folder: Path, full_checkpoint: tuple[Path, Any], tmp_path: Path
) -> None:
    text = load_inkling(str(folder), dtype="float32")
    assert (text.identity.id, text.identity.untrained, text.audio) == ("tiny", False, None)
    where, stock = full_checkpoint
    full = load_inkling(str(where), dtype="float32")
    assert full.audio is not None
    for model, source in ((full.text, stock.model.language_model), (full.audio, stock.model.audio_tower)):
        assert all(
            torch.equal(model.state_dict()[name], tensor) for name, tensor in source.state_dict().items()
        )
    # The identity covers what states depend on: neither the readout nor the file's format.
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    other = tmp_path / "tiny"
    other.mkdir()
    (other / "config.json").write_text((folder / "config.json").read_text())
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert load_inkling(str(other), dtype="float32").identity == text.identity
    weights["model.layers.7.input_layernorm.weight"][3] += 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert load_inkling(str(other), dtype="float32").identity.sha256 != text.identity.sha256


def test_a_checkpoint_without_all_its_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.33.self_attn.q_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"1 weights are missing .* layers\.33\.self_attn\.q_proj"):
        load_inkling(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 40)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_inkling(str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_inkling(str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("small:x", "seed of the small model is a whole number .* got 'x'"),
        ("small:-1", "got '-1'"),
        ("no/such/path", "is neither a folder nor a hub id"),
        ("somebody/inkling-of-nowhere", "is not in the local cache and cannot be downloaded"),
    ],
)
def test_what_is_not_to_be_had_names_ways_on(spec: str, message: str) -> None:
    """The tests run with the hub offline, as many a cluster does."""
    with pytest.raises(ConfigError, match=message) as caught:
        load_inkling(spec)
    assert caught.value.where == "memory.capture.model"
    assert "small:0" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "config.json is missing"),
        ("[1]", "not a JSON object"),
        ("{", "cannot be read"),
        (json.dumps({"model_type": "llama"}), "model_type 'llama'; Inkling's is inkling_mm_model"),
        (
            json.dumps({"model_type": "inkling_mm_model", "text_config": {"num_hidden_layers": 66}}),
            "the model has 66 blocks; rows 28, 34, 42 need 42",
        ),
        (json.dumps({"model_type": "inkling_mm_model"}), "the model has None blocks"),
    ],
)
def test_folders_that_are_no_inkling(tmp_path: Path, config: str | None, message: str) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(ConfigError, match=message):
        load_inkling(str(tmp_path))


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="no device 'cuda:77'"):
        load_inkling("small:0", device="cuda:77")
