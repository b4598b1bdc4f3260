"""`untrained:SEED`: a full-size Mimi with random weights, for trying a pipeline where no weights can be had.

Plain random weights give code 0 everywhere, because an untrained codebook is all zeros. Here the eight
codebooks in use are fitted to what the random encoder makes of 12 seconds of speech, so that codes vary
with the sound, silence has its own, and each codebook takes something off the last one's residual. The
codes mean nothing to a released model, and decoding them gives noise.

The weights depend on the seed alone: uniform numbers from a guaranteed stream, scaled by single float32
operations; latents in float64, rounded to a grid far coarser than any machine's rounding error.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import nn
from transformers import MimiConfig, MimiModel
from transformers.initialization import no_init_weights

from inkplex_data.clock import SAMPLE_RATE_HZ
from inkplex_data.grid import CODEBOOKS
from inkplex_data.resources import user_cache
from inkplex_data.speech.codec_fit import fit_codebooks
from inkplex_data.speech.codec_mimi import build_model
from inkplex_data.speech.codec_weights import State, common_name

VERSION: Final = 1
"""Part of every random key and of the cache's file name; raise it with any change to the arithmetic."""

UTTERANCES: Final = 4
CONVOLUTION_GAIN: Final = 1.3
"""Keeps the variance through 14 ELU layers; 1 lets it die away, 1.4 lets loud speech swamp quiet."""

LAYER_SCALE: Final = 0.1
"""Mimi starts training at 0.01, where attention would hardly reach the codes."""

WAVEFORM_GAIN: Final = 1 / 32
"""On the decoder's last convolution: noise about as loud as speech instead of 30 times full scale."""

LATENT_STEP: Final = 2.0**-8
_LAST_CONVOLUTION: Final = "decoder.layers.14.conv.weight"
_TRANSPOSED: Final = tuple(f"decoder.layers.{index}.conv.weight" for index in (2, 5, 8, 11))


def untrained_state(seed: int) -> State:
    """Every tensor of the codec `untrained:SEED`, by common name, float32."""
    with no_init_weights():
        skeleton = MimiModel(MimiConfig())
    shapes = {common_name(name): tuple(tensor.shape) for name, tensor in skeleton.state_dict().items()}
    state = {name: _random_tensor(name, shape, seed) for name, shape in shapes.items()}
    path = _cache_file(seed)
    codebooks = _read_cache(path)
    if codebooks is None:
        codebooks = _fit(state, seed)
        _write_cache(path, codebooks)
    for index, name in enumerate(_codebook_names()):
        state[name] = torch.from_numpy(codebooks[index].astype(np.float32)) * LATENT_STEP
    return state


def _random_words(label: str, seed: int) -> np.random.Philox:
    key = hashlib.sha256(f"inkplex-data untrained mimi {VERSION} {seed} {label}".encode()).digest()
    return np.random.Philox(key=int.from_bytes(key[:16], "little"))


def _random_tensor(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Weights uniform with variance gain² / fan-in; biases zero, so that silence stays exactly silent."""
    if name.endswith(".scale"):
        return torch.full(shape, LAYER_SCALE)
    if name.endswith(("layernorm.weight", ".cluster_usage", ".initialized")):
        return torch.ones(shape)
    if name.endswith((".bias", ".embed_sum")):
        return torch.zeros(shape)
    # A transposed convolution with kernel 2 × stride adds two terms per input channel (and group).
    if name == "upsample.conv.weight":
        fan_in = 2
    elif name in _TRANSPOSED:
        fan_in = 2 * shape[0]
    else:
        fan_in = math.prod(shape[1:])
    gain = CONVOLUTION_GAIN if name.endswith(".conv.weight") else 1.0
    gain *= WAVEFORM_GAIN if name == _LAST_CONVOLUTION else 1.0
    count = math.prod(shape)
    words = _random_words(name, seed).random_raw((count + 1) // 2).astype("<u8", copy=False)
    values = (words.view("<u4")[:count] >> np.uint32(8)).astype(np.float32)
    values *= np.float32(2.0**-23)
    values -= np.float32(1)
    values *= np.float32(gain * math.sqrt(3 / fan_in))
    return torch.from_numpy(values.reshape(shape))


def _codebook_names() -> list[str]:
    semantic = ["quantizer.semantic_residual_vector_quantizer.layers.0.codebook.embed_sum"]
    return semantic + [
        f"quantizer.acoustic_residual_vector_quantizer.layers.{level}.codebook.embed_sum"
        for level in range(CODEBOOKS - 1)
    ]


def _fit_speech_bytes() -> bytes:
    return (files("inkplex_data.speech") / "data" / "fit_speech.flac").read_bytes()


def fit_speech() -> npt.NDArray[np.float64]:
    """The packaged speech, float64 [4, samples]: four voices, each at half the last one's loudness."""
    samples, rate_hz = soundfile.read(io.BytesIO(_fit_speech_bytes()), dtype="int16")
    if rate_hz != SAMPLE_RATE_HZ:
        raise AssertionError(f"the packaged speech has {rate_hz} Hz")
    utterances = samples.reshape(UTTERANCES, -1) / 2.0**15
    return utterances * 0.5 ** np.arange(UTTERANCES)[:, None]


def _fit(state: State, seed: int) -> npt.NDArray[np.int16]:
    """Codebooks int16 [8, 2048, 256] in multiples of `LATENT_STEP`."""
    model = build_model(state, where=f"untrained:{seed}")
    encoder = copy.deepcopy(model.encoder).double()
    encoder.encoder_transformer.rotary_emb = _ExactRotary()
    with torch.inference_mode():
        latents = torch.cat([_latents(encoder, utterance) for utterance in fit_speech()])
        semantic, acoustic = (
            torch.round(
                latents
                @ state[f"quantizer.{branch}_residual_vector_quantizer.input_proj.weight"][..., 0].double().T
                / LATENT_STEP
            )
            .to(torch.int64)
            .numpy()
            for branch in ("semantic", "acoustic")
        )
    codebooks = np.concatenate(
        [
            fit_codebooks(semantic, 1, _random_words("semantic codebooks", seed)),
            fit_codebooks(acoustic, CODEBOOKS - 1, _random_words("acoustic codebooks", seed)),
        ]
    )
    return np.clip(codebooks, -(2**15), 2**15 - 1).astype(np.int16)


def _latents(encoder: Any, utterance: npt.NDArray[np.float64]) -> torch.Tensor:
    """Latents float64 [2 × frames, 512] of one utterance: both phases of the stride-2 downsampler."""
    hidden = encoder.encoder_seanet(torch.from_numpy(utterance)[None, None])
    hidden = encoder.encoder_transformer(hidden.transpose(1, 2)).last_hidden_state.transpose(1, 2)
    kernel = encoder.downsample.conv.weight
    before = hidden[..., :1].expand(-1, -1, kernel.shape[-1] - 2)
    return nn.functional.conv1d(torch.cat([before, hidden], dim=-1), kernel)[0].T


class _ExactRotary(nn.Module):
    """Rotary angles in float64: float32 cosines differ between processors in the last bit."""

    def forward(self, hidden: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        frequencies = 10_000.0 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def _cache_file(seed: int) -> Path:
    speech = hashlib.sha256(_fit_speech_bytes()).hexdigest()[:12]
    return user_cache() / f"untrained-mimi-{VERSION}-{speech}-{seed}.safetensors"


def _checksum(codebooks: npt.NDArray[np.int16]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(hashlib.sha256(codebooks.astype("<i2").tobytes()).digest(), np.uint8)


def _read_cache(path: Path) -> npt.NDArray[np.int16] | None:
    """Fitted codebooks of an earlier run; a file that is absent, cut off or altered counts as none."""
    try:
        stored = load_file(path)
        codebooks, checksum = stored["codebooks"], stored["sha256"]
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    if codebooks.dtype != np.int16 or not np.array_equal(checksum, _checksum(codebooks)):
        return None
    return codebooks


def _write_cache(path: Path, codebooks: npt.NDArray[np.int16]) -> None:
    """Keep the codebooks for the next process: by rename, and only where the folder can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        os.close(handle)
    except OSError:
        return
    part = Path(name)
    try:
        save_file({"codebooks": codebooks, "sha256": _checksum(codebooks)}, part)
        part.replace(path)
    except (OSError, SafetensorError):
        part.unlink(missing_ok=True)
