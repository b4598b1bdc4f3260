"""Encoding in canonical chunks equals a plain MimiModel loop; memory is flat; decoding in windows is exact."""

from __future__ import annotations

import hashlib
import itertools
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
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MimiConfig, MimiModel

from inkplex_data.errors import UsageError
from inkplex_data.speech.codec_decode import decode_windows
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_mimi import MimiCodec

# Weights of untrained:0; equal on every machine, so stores built anywhere name the same codec.
UNTRAINED_0 = "5aaa38aac8a5e03383bfbf013558d27f0c473f26d70527439ba2a0a72ce90fa7"

SHORT = np.random.default_rng(5).normal(scale=0.1, size=CHUNK_SAMPLES + 5_000).astype(np.float32)


@pytest.fixture(scope="module")
def short_codes(untrained_codec: MimiCodec) -> np.ndarray:
    return untrained_codec.encode(SHORT)


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


@pytest.mark.parametrize(
    ("samples", "frames"), [(0, 0), (1, 1), (1_919, 1), (1_920, 1), (1_921, 2), (48_000, 25), (48_001, 26)]
)
def test_frames_are_ceil_of_samples(untrained_codec: MimiCodec, samples: int, frames: int) -> None:
    codes = untrained_codec.encode(SHORT[:samples])
    assert codes.shape == (frames, 8)
    assert codes.dtype == np.uint16


@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, len(SHORT)), max_size=6))
def test_codes_do_not_depend_on_how_callers_cut(
    untrained_codec: MimiCodec, short_codes: np.ndarray, cuts: list[int]
) -> None:
    bounds = [0, *sorted(cuts), len(SHORT)]
    stream = untrained_codec.stream()
    parts = []
    for start, stop in itertools.pairwise(bounds):
        piece = SHORT[start:stop].copy()
        parts.append(stream.push(piece))
        piece[:] = 9  # the caller may reuse its buffer
    parts.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(parts), short_codes)
    assert stream.samples == len(SHORT)


def test_the_last_frame_is_padded_with_zeros(untrained_codec: MimiCodec, short_codes: np.ndarray) -> None:
    padded = np.pad(SHORT, (0, -len(SHORT) % 1_920))
    np.testing.assert_array_equal(untrained_codec.encode([padded]), short_codes)


def test_the_past_reaches_the_next_chunk(untrained_codec: MimiCodec, short_codes: np.ndarray) -> None:
    """A stream that forgot its caches between chunks would give other codes."""
    afresh = untrained_codec.encode(SHORT[CHUNK_SAMPLES:])
    assert (afresh != short_codes[25:]).any()


def test_state_stops_growing_once_the_window_is_full(untrained_codec: MimiCodec) -> None:
    stream = untrained_codec.stream()
    noise = np.random.default_rng(6)
    sizes = []
    for _ in range(6):
        assert stream.push(noise.normal(scale=0.1, size=CHUNK_SAMPLES).astype(np.float32)).shape == (25, 8)
        tensors = [tensor for layer in stream._cache.layers for tensor in (layer.keys, layer.values)]
        tensors += [tensor for tensor in stream._padding_cache.padding_cache if tensor is not None]
        sizes.append(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
        assert max(layer.keys.shape[-2] for layer in stream._cache.layers) <= 249
    # Fifty positions a chunk: the window is full from the fifth on, with 249 positions of eight layers.
    assert sizes[0] < sizes[4] == sizes[5]
    assert sizes[5] < 1.1 * 8 * 2 * 249 * 512 * 4


def test_a_pair_in_step_is_encoded_as_each_alone(untrained_codec: MimiCodec, short_codes: np.ndarray) -> None:
    other = np.roll(SHORT, 5_000)
    pairs = ((SHORT[at : at + 30_011], other[at : at + 30_011]) for at in range(0, len(SHORT), 30_011))
    codes = untrained_codec.encode_pair(pairs)
    assert codes.dtype == np.uint16
    np.testing.assert_array_equal(codes[:, :8], short_codes)
    np.testing.assert_array_equal(codes[:, 8:], untrained_codec.encode(other))


def test_threads_are_the_callers_again_afterwards(untrained_codec: MimiCodec) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        untrained_codec.encode(SHORT[:1_920])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def encoded_elsewhere(folder: Path, environment: dict[str, str]) -> list[str]:
    """The codec's digest and that of SHORT's codes in another process."""
    np.save(folder / "samples.npy", SHORT)
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


def test_decoding_nothing_gives_nothing(untrained_codec: MimiCodec) -> None:
    samples = untrained_codec.decode(np.zeros((8, 0), np.uint16))
    assert samples.shape == (0,)
    assert samples.dtype == np.float32


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((20, 8)), r"\[codebooks, frames\]"),
        (np.zeros(8), r"\[codebooks, frames\]"),
        (np.full((8, 3), 2_048), "0–2047"),
        (np.full((8, 3), -1), "0–2047"),
    ],
)
def test_codes_that_are_none_are_refused(untrained_codec: MimiCodec, codes: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        untrained_codec.decode(codes)


def test_samples_that_are_no_sound_are_refused(untrained_codec: MimiCodec) -> None:
    stream = untrained_codec.stream()
    stream.push(np.zeros(10, np.float32))
    with pytest.raises(UsageError, match="sample 13 is not finite"):
        stream.push(np.array([0, 0, 0, np.nan, 0], np.float32))
    with pytest.raises(UsageError, match="one channel"):
        stream.push(np.zeros((2, 100), np.float32))


def test_a_finished_stream_takes_no_more(untrained_codec: MimiCodec) -> None:
    stream = untrained_codec.stream()
    assert stream.finish().shape == (0, 8)
    with pytest.raises(UsageError, match="finished"):
        stream.push(np.zeros(10, np.float32))
    with pytest.raises(UsageError, match="finished"):
        stream.finish()


def test_identity_is_plain_data_without_paths(untrained_codec: MimiCodec) -> None:
    assert untrained_codec.identity.as_dict() == {
        "id": "untrained:0",
        "sha256": UNTRAINED_0,
        "untrained": True,
        "codebooks": 8,
        "chunk_frames": 25,
        "frame_samples": 1_920,
        "sample_rate_hz": 24_000,
    }
