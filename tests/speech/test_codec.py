"""Encoding in canonical chunks equals a plain MimiModel loop; memory is flat; decoding in windows is exact."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch
from transformers import MimiConfig, MimiModel

from inkplex_data.speech.codec_decode import decode_windows
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_mimi import MimiCodec
from inkplex_data.speech.codec_stream import Codec
from tests.conformance.codecs import SOUND, CodecConformance

# Weights of untrained:0; equal on every machine, so stores built anywhere name the same codec.
UNTRAINED_0 = "5aaa38aac8a5e03383bfbf013558d27f0c473f26d70527439ba2a0a72ce90fa7"


@pytest.fixture(scope="module")
def short_codes(untrained_codec: MimiCodec) -> np.ndarray:
    return untrained_codec.encode(SOUND)


class TestMimi(CodecConformance):
    @pytest.fixture
    def codec(self, untrained_codec: MimiCodec) -> Codec:
        return untrained_codec


def plain_loop(model: MimiModel, samples: np.ndarray) -> np.ndarray:
    """What transformers' documentation shows: carried caches over chunks of 48,000 samples."""
    padded = np.pad(samples, (0, -len(samples) % 1_920))
    cache = padding = None
    parts = []
    with torch.no_grad():
        for start in range(0, len(padded), 48_000):
            output = model.encode(
                torch.from_numpy(padded[None, None, start : start + 48_000]),
                encoder_cache=cache,
                padding_cache=padding,
                use_streaming=True,
            )
            cache, padding = output.encoder_cache, output.padding_cache
            parts.append(output.audio_codes[0, :8])
    return torch.cat(parts, dim=-1).T.numpy()


def test_every_code_equals_a_plain_mimi_model_loop(
    untrained_codec: MimiCodec, caller_speech: np.ndarray
) -> None:
    model = MimiModel(MimiConfig()).eval()
    model.load_state_dict(untrained_codec.model.state_dict())
    samples = caller_speech[: 2 * CHUNK_SAMPLES + 1_000]
    codes = untrained_codec.encode(samples)
    assert codes.dtype == np.uint16
    assert codes.shape == (51, 8)
    np.testing.assert_array_equal(codes, plain_loop(model, samples))


@pytest.mark.slow
@pytest.mark.parametrize("role", ["agent", "caller"])
def test_every_code_of_a_whole_call_equals_a_plain_loop(
    untrained_codec: MimiCodec, real_data: Path, role: str
) -> None:
    audio, rate_hz = soundfile.read(real_data / "calls" / f"Auto_Repairs_40_UTC_{role}.wav", dtype="float32")
    samples = soxr.resample(audio, rate_hz, 24_000).astype(np.float32)
    codes = untrained_codec.encode(samples[start : start + 7_777] for start in range(0, len(samples), 7_777))
    assert len(codes) == -(-len(samples) // 1_920)
    np.testing.assert_array_equal(codes, plain_loop(untrained_codec.model, samples))


def test_the_past_reaches_the_next_chunk(untrained_codec: MimiCodec, short_codes: np.ndarray) -> None:
    """A stream that forgot its caches between chunks would give other codes."""
    afresh = untrained_codec.encode(SOUND[CHUNK_SAMPLES:])
    assert (afresh != short_codes[25:]).any()


def test_state_stops_growing_once_the_window_is_full(untrained_codec: MimiCodec) -> None:
    stream = untrained_codec.stream()
    noise = np.random.default_rng(6)
    sizes = []
    for _ in range(6):
        assert stream.push(noise.normal(scale=0.1, size=CHUNK_SAMPLES).astype(np.float32)).shape == (25, 8)
        tensors = [tensor for layer in stream._rows.cache.layers for tensor in (layer.keys, layer.values)]
        tensors += [tensor for tensor in stream._rows.padding_cache.padding_cache if tensor is not None]
        sizes.append(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
        assert max(layer.keys.shape[-2] for layer in stream._rows.cache.layers) <= 249
    # Fifty positions a chunk: the window is full from the fifth on, with 249 positions of eight layers.
    assert sizes[0] < sizes[4] == sizes[5]
    assert sizes[5] < 1.1 * 8 * 2 * 249 * 512 * 4


def test_threads_are_the_callers_again_afterwards(untrained_codec: MimiCodec) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        untrained_codec.encode(SOUND[:1_920])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def encoded_elsewhere(folder: Path, environment: dict[str, str]) -> list[str]:
    """The codec's digest and that of SOUND's codes in another process."""
    np.save(folder / "samples.npy", SOUND)
    code = (
        "import sys, json, hashlib, numpy as np\n"
        "from inkplex_data.speech.codec import load_codec\n"
        "codec = load_codec('untrained:0')\n"
        "codes = codec.encode(np.load(sys.argv[1]))\n"
        "print(json.dumps([codec.identity.sha256, hashlib.sha256(codes.tobytes()).hexdigest()]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder / "samples.npy")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    digests: list[str] = json.loads(run.stdout)
    return digests


def test_another_process_gives_the_same_codes(short_codes: np.ndarray, tmp_path: Path) -> None:
    expected = [UNTRAINED_0, hashlib.sha256(short_codes.tobytes()).hexdigest()]
    assert encoded_elsewhere(tmp_path, {}) == expected


@pytest.mark.slow
def test_a_fit_from_scratch_gives_the_same_weights(short_codes: np.ndarray, tmp_path: Path) -> None:
    expected = [UNTRAINED_0, hashlib.sha256(short_codes.tobytes()).hexdigest()]
    cache = tmp_path / "cache"
    assert encoded_elsewhere(tmp_path, {"INKPLEX_CACHE": str(cache)}) == expected
    assert [path.suffix for path in cache.iterdir()] == [".safetensors"]


def test_decoding_in_windows_equals_decoding_whole(
    untrained_codec: MimiCodec, short_codes: np.ndarray
) -> None:
    codes = torch.from_numpy(short_codes[:18].T.astype(np.int64))
    with torch.inference_mode():
        whole = untrained_codec.model.decode(codes[None]).audio_values[0, 0].numpy()
        windows = decode_windows(untrained_codec.model, codes, window_frames=7)
    assert windows.shape == (18 * 1_920,)
    np.testing.assert_allclose(windows, whole, atol=1e-5)
    np.testing.assert_allclose(untrained_codec.decode(short_codes[:3].T), whole[: 3 * 1_920], atol=1e-5)
    assert 0.01 < windows.std() < 0.5


def test_identity_is_plain_data_without_paths(untrained_codec: MimiCodec) -> None:
    assert untrained_codec.identity.as_dict() == {
        "id": "untrained:0",
        "sha256": UNTRAINED_0,
        "untrained": True,
        "codebooks": 8,
        "chunk_frames": 25,
        "frame_samples": 1_920,
        "sample_rate_hz": 24_000,
        "device": "cpu",
        "dtype": "float32",
        "tf32": False,
        "batch_rows": 1,
        "stream": "whole",
    }
