"""Both formats of Mimi's weights give one codec; what is no Mimi says why."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from inkplex_data.errors import CheckpointError
from inkplex_data.speech.codec import load_codec
from inkplex_data.speech.codec_mimi import MimiCodec, build_model
from inkplex_data.speech.codec_weights import common_name, from_moshi, read_state, state_sha256

LAYERS = 8
ENCODER_CONVOLUTIONS = [
    "0",
    "1.block.1",
    "1.block.3",
    "3",
    "4.block.1",
    "4.block.3",
    "6",
    "7.block.1",
    "7.block.3",
]
ENCODER_CONVOLUTIONS += ["9", "10.block.1", "10.block.3", "12", "14"]
DECODER_CONVOLUTIONS = ["0", "3.block.1", "3.block.3", "6.block.1", "6.block.3", "9.block.1", "9.block.3"]
DECODER_CONVOLUTIONS += ["12.block.1", "12.block.3", "14"]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that is removed at once: pytest keeps its own for three runs, and weights are 385 MB."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def common_state(untrained_codec: MimiCodec) -> dict[str, torch.Tensor]:
    return {common_name(name): tensor for name, tensor in untrained_codec.model.state_dict().items()}


def pairs_from_halves(weight: torch.Tensor) -> torch.Tensor:
    """Rows of each of 8 heads to rotary pairs: row 2i is half 0's row i, row 2i + 1 half 1's."""
    order = [head * 64 + half * 32 + i for head in range(8) for i in range(32) for half in range(2)]
    return weight[order]


def moshi_state(state: dict[str, torch.Tensor], in_proj: str, out_proj: str) -> dict[str, torch.Tensor]:
    """The names that a Moshi file has, spelt out module by module."""
    moshi: dict[str, torch.Tensor] = {}
    for half, convolutions in (("encoder", ENCODER_CONVOLUTIONS), ("decoder", DECODER_CONVOLUTIONS)):
        for index in convolutions:
            for kind in ("weight", "bias"):
                moshi[f"{half}.model.{index}.conv.conv.{kind}"] = state[f"{half}.layers.{index}.conv.{kind}"]
        for index in range(LAYERS):
            ours, theirs = (
                f"{half}_transformer.layers.{index}",
                f"{half}_transformer.transformer.layers.{index}",
            )
            query, key, value = (state[f"{ours}.self_attn.{name}_proj.weight"] for name in "qkv")
            fused = torch.cat([pairs_from_halves(query), pairs_from_halves(key), value])
            moshi[f"{theirs}.self_attn.{in_proj}"] = fused
            moshi[f"{theirs}.self_attn.{out_proj}"] = state[f"{ours}.self_attn.o_proj.weight"]
            moshi[f"{theirs}.linear1.weight"] = state[f"{ours}.mlp.fc1.weight"]
            moshi[f"{theirs}.linear2.weight"] = state[f"{ours}.mlp.fc2.weight"]
            for kind in ("weight", "bias"):
                moshi[f"{theirs}.norm1.{kind}"] = state[f"{ours}.input_layernorm.{kind}"]
                moshi[f"{theirs}.norm2.{kind}"] = state[f"{ours}.post_attention_layernorm.{kind}"]
            moshi[f"{theirs}.layer_scale_1.scale"] = state[f"{ours}.self_attn_layer_scale.scale"]
            moshi[f"{theirs}.layer_scale_2.scale"] = state[f"{ours}.mlp_layer_scale.scale"]
    for index in (2, 5, 8, 11):
        for kind in ("weight", "bias"):
            moshi[f"decoder.model.{index}.convtr.convtr.{kind}"] = state[
                f"decoder.layers.{index}.conv.{kind}"
            ]
    moshi["downsample.conv.conv.conv.weight"] = state["downsample.conv.weight"]
    moshi["upsample.convtr.convtr.convtr.weight"] = state["upsample.conv.weight"]
    for theirs, ours, levels in (("rvq_first", "semantic", 1), ("rvq_rest", "acoustic", 31)):
        branch = f"quantizer.{ours}_residual_vector_quantizer"
        for side in ("input", "output"):
            moshi[f"quantizer.{theirs}.{side}_proj.weight"] = state[f"{branch}.{side}_proj.weight"]
        for level in range(levels):
            book, codebook = (
                f"quantizer.{theirs}.vq.layers.{level}._codebook",
                f"{branch}.layers.{level}.codebook",
            )
            moshi[f"{book}.embedding_sum"] = state[f"{codebook}.embed_sum"]
            moshi[f"{book}.cluster_usage"] = state[f"{codebook}.cluster_usage"]
            moshi[f"{book}._initialized"] = state[f"{codebook}.initialized"]
    return {name: tensor.clone() for name, tensor in moshi.items()}


def test_a_file_as_personaplex_ships_it_is_the_same_codec(
    untrained_codec: MimiCodec, common_state: dict[str, torch.Tensor], scratch: Path
) -> None:
    state = moshi_state(common_state, "in_proj_weight", "out_proj.weight")
    assert len(state) == 318
    path = scratch / "tokenizer-e351c8d8-checkpoint125.safetensors"
    save_file(state, path)
    # The size that the published file has, to the byte: same names, shapes and types.
    assert path.stat().st_size == 384_644_900
    codec = load_codec(str(scratch))
    assert codec.identity.sha256 == untrained_codec.identity.sha256
    assert codec.identity.id == path.parent.resolve().name
    assert not codec.identity.untrained


def test_names_of_newer_moshi_files_are_read_too(common_state: dict[str, torch.Tensor]) -> None:
    state = from_moshi(moshi_state(common_state, "in_projs.0.weight", "out_projs.0.weight"))
    assert state_sha256(state) == state_sha256(common_state)


def test_a_transformers_folder_is_the_same_codec(untrained_codec: MimiCodec, scratch: Path) -> None:
    untrained_codec.model.save_pretrained(scratch / "mimi")
    codec = load_codec(str(scratch / "mimi"))
    assert codec.identity.sha256 == untrained_codec.identity.sha256
    assert codec.identity.id == "mimi"


def test_attention_of_both_layouts_is_equal() -> None:
    """Interleaved rotary pairs over Moshi's rows and rotated halves over ours give the same scores."""
    generator = torch.Generator().manual_seed(0)
    fused = torch.randn(3 * 512, 512, generator=generator, dtype=torch.float64)
    layer = "encoder_transformer.transformer.layers.0.self_attn"
    state = from_moshi({f"{layer}.in_proj_weight": fused})
    hidden = torch.randn(12, 512, generator=generator, dtype=torch.float64)
    angles = torch.arange(12)[:, None] * 10_000.0 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    turn = torch.polar(torch.ones_like(angles), angles)[:, None]

    def pairs(weight: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex((hidden @ weight.T).reshape(12, 8, 32, 2)) * turn

    def halves(weight: torch.Tensor) -> torch.Tensor:
        real, imaginary = (hidden @ weight.T).reshape(12, 8, 2, 32).unbind(2)
        return torch.complex(real, imaginary) * turn

    expected = torch.einsum("qhd,khd->hqk", pairs(fused[:512]), pairs(fused[512:1024]).conj()).real
    query, key = (state[f"encoder_transformer.layers.0.self_attn.{name}_proj.weight"] for name in "qk")
    torch.testing.assert_close(torch.einsum("qhd,khd->hqk", halves(query), halves(key).conj()).real, expected)
    assert torch.equal(state["encoder_transformer.layers.0.self_attn.v_proj.weight"], fused[1024:])


def test_what_does_not_fit_is_named(common_state: dict[str, torch.Tensor]) -> None:
    state = dict(common_state)
    del state["downsample.conv.weight"]
    state["upsample.conv.weight"] = torch.zeros(512, 512, 4)
    state["text_emb.weight"] = torch.zeros(3)
    with pytest.raises(CheckpointError) as caught:
        build_model(state, where="mimi.safetensors")
    message = str(caught.value)
    assert "downsample.conv.weight: missing" in message
    assert "upsample.conv.weight: shape (512, 512, 4), Mimi has (512, 1, 4)" in message
    assert "text_emb.weight: not a tensor of Mimi" in message


def test_a_language_model_is_no_codec(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"text_emb.weight": torch.zeros(4, 4)}, path)
    with pytest.raises(CheckpointError, match="0 codebooks"):
        load_codec(str(path))


@pytest.mark.parametrize(
    "data", [b"", b"not safetensors at all", b"\xff" * 64, (1 << 60).to_bytes(8, "little")]
)
def test_a_broken_file_is_a_checkpoint_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokenizer-broken.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        read_state([path])
