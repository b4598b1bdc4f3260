"""Random weights that are worth encoding with: codes vary with the sound, and every codebook does work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from inkplex_data.speech import codec_untrained
from inkplex_data.speech.codec_mimi import MimiCodec


@pytest.fixture(scope="module")
def speech_codes(untrained_codec: MimiCodec, caller_speech: np.ndarray) -> np.ndarray:
    return untrained_codec.encode(caller_speech)


def test_it_is_the_full_size_model(untrained_codec: MimiCodec) -> None:
    assert sum(parameter.numel() for parameter in untrained_codec.model.parameters()) == 79_308_609
    assert untrained_codec.model.config.num_quantizers == 32


def test_codes_vary_with_speech_in_every_codebook(speech_codes: np.ndarray) -> None:
    frames, codebooks = speech_codes.shape
    assert frames == 100
    distinct = [len(np.unique(speech_codes[:, codebook])) for codebook in range(codebooks)]
    assert min(distinct) > 60, distinct
    assert speech_codes.max() > 1_900


def test_silence_has_codes_of_its_own(untrained_codec: MimiCodec, speech_codes: np.ndarray) -> None:
    silence = untrained_codec.encode(np.zeros(10 * 1_920, np.float32))
    assert (silence == silence[0]).all()
    assert len(set(silence[0].tolist())) > 1
    assert (speech_codes != silence[0]).any(axis=1).mean() > 0.9


def test_every_codebook_takes_something_off_the_residual_of_unheard_speech(
    untrained_codec: MimiCodec, caller_speech: np.ndarray
) -> None:
    quantizer = untrained_codec.model.quantizer.acoustic_residual_vector_quantizer
    with torch.inference_mode():
        samples = torch.from_numpy(caller_speech[:72_000])[None, None]
        residual = quantizer.input_proj(untrained_codec.model.encoder(samples).latents)
        energies = [float(residual.square().sum())]
        for layer in quantizer.layers[:7]:
            residual = residual - layer.decode(layer.encode(residual))
            energies.append(float(residual.square().sum()))
    steps = np.diff(energies) / energies[:-1]
    assert (steps < -0.02).all(), steps
    assert energies[-1] < 0.75 * energies[0]


def test_weights_depend_on_seed_and_name_alone() -> None:
    name, shape = "encoder.layers.0.conv.weight", (64, 1, 7)
    one = codec_untrained._random_tensor(name, shape, 1)
    assert torch.equal(one, codec_untrained._random_tensor(name, shape, 1))
    assert not torch.equal(one, codec_untrained._random_tensor(name, shape, 2))
    assert not torch.equal(one, codec_untrained._random_tensor("decoder.layers.0.conv.weight", shape, 1))
    limit = codec_untrained.CONVOLUTION_GAIN * (3 / 7) ** 0.5
    assert float(one.abs().max()) <= limit
    assert float(one.std()) == pytest.approx(limit / 3**0.5, rel=0.1)


def test_fit_speech_is_four_utterances_of_falling_loudness() -> None:
    speech = codec_untrained.fit_speech()
    assert speech.shape == (4, 38 * 1_920)
    np.testing.assert_allclose(np.abs(speech).max(axis=1), [0.9, 0.45, 0.225, 0.1125], rtol=0.01)


def test_cache_gives_back_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    codebooks = np.arange(-4, 8, dtype=np.int16).reshape(1, 3, 4)
    path = tmp_path / "deep" / "codebooks.safetensors"
    assert codec_untrained._read_cache(path) is None
    codec_untrained._write_cache(path, codebooks)
    np.testing.assert_array_equal(codec_untrained._read_cache(path), codebooks)
    assert list(path.parent.iterdir()) == [path]
    data = bytearray(path.read_bytes())
    data[-1 if data[-2:] != b"\0\0" else -2] ^= 1
    path.write_bytes(data)
    assert codec_untrained._read_cache(path) is None
    path.write_bytes(data[:20])
    assert codec_untrained._read_cache(path) is None


def test_a_cache_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "codebooks.safetensors"
    codec_untrained._write_cache(path, np.zeros((1, 2, 2), np.int16))
    assert codec_untrained._read_cache(path) is None


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INKPLEX_CACHE", str(tmp_path))
    assert codec_untrained._cache_file(7).parent == tmp_path
    monkeypatch.delenv("INKPLEX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert codec_untrained._cache_file(7).parent == tmp_path / "xdg" / "inkplex-data"
