"""Mimi's weights, read from either safetensors format into one set of names, and their digest.

The common names are those of the hub's `kyutai/mimi` (`encoder.layers.0.conv.weight`,
`quantizer.semantic_residual_vector_quantizer.layers.0.codebook.embed_sum`, …). The Moshi format differs in
names and in two layouts: query, key and value are one matrix, and their rotary pairs are interleaved
(2i, 2i + 1) where transformers rotates halves (i, i + 32).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from inkplex_data.errors import CheckpointError

State = dict[str, torch.Tensor]

HEADS: Final = 8

_MOSHI_NAMES: Final[tuple[tuple[str, str], ...]] = (
    (r"^(encoder|decoder)\.model\.", r"\1.layers."),
    (r"\.(conv|convtr)(\.(conv|convtr))+\.", ".conv."),
    (r"^(encoder|decoder)_transformer\.transformer\.", r"\1_transformer."),
    (r"\.linear1\.", ".mlp.fc1."),
    (r"\.linear2\.", ".mlp.fc2."),
    (r"\.norm1\.", ".input_layernorm."),
    (r"\.norm2\.", ".post_attention_layernorm."),
    (r"\.layer_scale_1\.", ".self_attn_layer_scale."),
    (r"\.layer_scale_2\.", ".mlp_layer_scale."),
    (r"\.self_attn\.out_proj(s\.0)?\.", ".self_attn.o_proj."),
    (r"^quantizer\.rvq_first\.(vq\.)?", "quantizer.semantic_residual_vector_quantizer."),
    (r"^quantizer\.rvq_rest\.(vq\.)?", "quantizer.acoustic_residual_vector_quantizer."),
    (r"\._codebook\.(_initialized|inited)$", ".codebook.initialized"),
    (r"\._codebook\.(cluster_usage|cluster_size)$", ".codebook.cluster_usage"),
    (r"\._codebook\.(embedding_sum|embed_avg|embed_sum)$", ".codebook.embed_sum"),
)
_FUSED: Final = re.compile(r"^(?P<layer>.*\.self_attn)\.in_proj(s\.0\.|_|\.)weight$")

# Since transformers split Mimi into halves, its modules are nested one deeper than its checkpoints' names.
_MODULE_NAMES: Final[tuple[tuple[str, str], ...]] = (
    (r"^encoder\.encoder_seanet\.", "encoder."),
    (r"^decoder\.decoder_seanet\.", "decoder."),
    (r"^(?:encoder|decoder)\.((?:encoder|decoder)_transformer|downsample|upsample)\.", r"\1."),
)


def read_state(files: Iterable[Path]) -> State:
    """All tensors of one codec's files, float32, by common name.

    Raises CheckpointError where a file is not safetensors or holds no Mimi.
    """
    state: State = {}
    for path in files:
        try:
            state.update(load_file(path))
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(
                f"not a readable safetensors file: {error}",
                where=path.name,
                next_step="Download the file again; an interrupted download is the usual cause.",
            ) from error
    if any(name.startswith(("encoder.model.", "quantizer.rvq_")) for name in state):
        state = from_moshi(state)
    return {name: tensor.float() for name, tensor in state.items()}


def from_moshi(state: Mapping[str, torch.Tensor]) -> State:
    """Common names and layouts for a state in the Moshi format (`in_proj_weight` and `in_projs.0.weight` alike)."""
    result: State = {}
    for name, tensor in state.items():
        fused = _FUSED.match(name)
        common = _renamed(fused["layer"] if fused else name, _MOSHI_NAMES)
        if fused is None:
            result[common] = tensor
            continue
        query, key, value = tensor.chunk(3)
        result[f"{common}.q_proj.weight"] = _halves_from_pairs(query)
        result[f"{common}.k_proj.weight"] = _halves_from_pairs(key)
        result[f"{common}.v_proj.weight"] = value.contiguous()
    return result


def _halves_from_pairs(weight: torch.Tensor) -> torch.Tensor:
    """Rows of each head from rotary order (x0, y0, x1, y1, …) to (x0, x1, …, y0, y1, …)."""
    rows, columns = weight.shape
    pairs = weight.reshape(HEADS, rows // HEADS // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


def common_name(module_name: str) -> str:
    """The common name of a parameter or buffer of `transformers.MimiModel`."""
    return _renamed(module_name, _MODULE_NAMES)


def _renamed(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def quantizers(state: Mapping[str, torch.Tensor]) -> int:
    """Codebooks that the state holds, semantic and acoustic together."""
    return sum(name.endswith(".codebook.embed_sum") for name in state)


def state_sha256(state: Mapping[str, torch.Tensor]) -> str:
    """Hex digest over every tensor in sorted name order: name, shape, little-endian float32 bytes."""
    digest = hashlib.sha256()
    for name in sorted(state):
        values = state[name].detach().cpu().contiguous().numpy().astype("<f4", copy=False)
        digest.update(f"{name} {list(values.shape)}\n".encode())
        digest.update(values.data)
    return digest.hexdigest()
