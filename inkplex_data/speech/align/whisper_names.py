"""openai-whisper's names for the tensors of a CTranslate2 Whisper: pure, arrays in and arrays out.

CTranslate2 fuses the projections of self-attention (query, key, value stacked) and of cross-attention (key, value)
and gives keys a bias of zeros, which Whisper does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import CheckpointError

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class WhisperShape:
    """The ten numbers of a Whisper model, in the order and under the names of `whisper.model.ModelDimensions`."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int


def shape_of(variables: Arrays) -> WhisperShape:
    """Sizes of the model. Raises CheckpointError where a tensor that tells them is absent."""
    try:
        embeddings = variables["decoder/embeddings/weight"]
        audio = variables["encoder/position_encodings/encodings"]
        text = variables["decoder/position_encodings/encodings"]
        return WhisperShape(
            n_mels=variables["encoder/conv1/weight"].shape[1],
            n_audio_ctx=audio.shape[0],
            n_audio_state=audio.shape[1],
            n_audio_head=int(variables["encoder/num_heads"]),
            n_audio_layer=_layers(variables, "encoder"),
            n_vocab=embeddings.shape[0],
            n_text_ctx=text.shape[0],
            n_text_state=text.shape[1],
            n_text_head=int(variables["decoder/num_heads"]),
            n_text_layer=_layers(variables, "decoder"),
        )
    except KeyError as error:
        raise CheckpointError(f"not a Whisper model: {error.args[0]!r} is missing") from error


def state_dict_of(variables: Arrays) -> dict[str, npt.NDArray[np.float16]]:
    """The model's float16 tensors under openai-whisper's names, contiguous.

    Raises CheckpointError where one is absent, is quantised, or where a key's bias is not zero.
    """
    shape = shape_of(variables)
    out: dict[str, npt.NDArray[np.float16]] = {}

    def take(name: str) -> npt.NDArray[np.float16]:
        try:
            array = variables[name]
        except KeyError:
            raise CheckpointError(f"not a Whisper model: {name!r} is missing") from None
        if array.dtype.kind != "f":
            raise CheckpointError(f"{name!r} is quantised ({array.dtype}); use float16 or float32 weights")
        return np.ascontiguousarray(array, np.float16)

    def linear(ours: str, theirs: str) -> None:
        out[f"{ours}.weight"], out[f"{ours}.bias"] = take(f"{theirs}/weight"), take(f"{theirs}/bias")

    def norm(ours: str, theirs: str) -> None:
        out[f"{ours}.weight"], out[f"{ours}.bias"] = take(f"{theirs}/gamma"), take(f"{theirs}/beta")

    def attention(ours: str, theirs: str, parts: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        for place, names in parts:
            weight, bias = take(f"{theirs}/{place}/weight"), take(f"{theirs}/{place}/bias")
            rows = len(weight) // len(names)
            for index, name in enumerate(names):
                cut = slice(index * rows, (index + 1) * rows)
                out[f"{ours}.{name}.weight"] = np.ascontiguousarray(weight[cut])
                if name != "key":
                    out[f"{ours}.{name}.bias"] = np.ascontiguousarray(bias[cut])
                elif np.any(bias[cut]):
                    raise CheckpointError(f"{theirs}/{place}: a key has a bias, which no Whisper model has")

    for name in ("conv1", "conv2"):
        linear(f"encoder.{name}", f"encoder/{name}")
    out["encoder.positional_embedding"] = take("encoder/position_encodings/encodings")
    out["decoder.positional_embedding"] = take("decoder/position_encodings/encodings")
    out["decoder.token_embedding.weight"] = take("decoder/embeddings/weight")
    norm("encoder.ln_post", "encoder/layer_norm")
    norm("decoder.ln", "decoder/layer_norm")
    own = (("linear_0", ("query", "key", "value")), ("linear_1", ("out",)))
    cross = (("linear_0", ("query",)), ("linear_1", ("key", "value")), ("linear_2", ("out",)))
    for side, layers in (("encoder", shape.n_audio_layer), ("decoder", shape.n_text_layer)):
        for index in range(layers):
            ours, theirs = f"{side}.blocks.{index}", f"{side}/layer_{index}"
            attention(f"{ours}.attn", f"{theirs}/self_attention", own)
            norm(f"{ours}.attn_ln", f"{theirs}/self_attention/layer_norm")
            linear(f"{ours}.mlp.0", f"{theirs}/ffn/linear_0")
            linear(f"{ours}.mlp.2", f"{theirs}/ffn/linear_1")
            norm(f"{ours}.mlp_ln", f"{theirs}/ffn/layer_norm")
            if side == "decoder":
                attention(f"{ours}.cross_attn", f"{theirs}/attention", cross)
                norm(f"{ours}.cross_attn_ln", f"{theirs}/attention/layer_norm")
    return out


def _layers(variables: Arrays, side: str) -> int:
    found = {
        name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_") and "/ffn/" in name
    }
    return len(found)
