"""The `config.json` of Moshi's own layout, to and from the sizes of a model.

Keys and their meaning are those of the public `moshi` package (0.2.13, `models/loaders.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inkplex_data.errors import ConfigError
from inkplex_data.trainer.model.layers import ROTARY_PERIOD
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig

_NUMBERS: Mapping[str, str] = {
    "dim": "dim",
    "num_heads": "heads",
    "num_layers": "layers",
    "context": "context",
    "text_card": "text_card",
    "card": "audio_card",
    "depformer_dim": "depth_dim",
    "depformer_num_heads": "depth_heads",
    "depformer_num_layers": "depth_layers",
    "n_q": "n_q",
    "dep_q": "dep_q",
}
_ALWAYS: Mapping[str, Any] = {
    "existing_text_padding_id": 3,
    "causal": True,
    "layer_scale": None,
    "max_period": int(ROTARY_PERIOD),
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_layer_scale": None,
    "depformer_multi_linear": True,
    "depformer_max_period": int(ROTARY_PERIOD),
    "depformer_gating": "silu",
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
}
"""What every model of this architecture has; another value is another architecture."""
FILES: Mapping[str, str] = {
    "mimi_name": "tokenizer-e351c8d8-checkpoint125.safetensors",
    "tokenizer_name": "tokenizer_spm_32k_3.model",
    "moshi_name": "model.safetensors",
}
"""Names of the released files."""


def moshi_config(config: PersonaPlexConfig) -> dict[str, Any]:
    """The body of a `config.json` for a model. Raises ConfigError for a feed-forward width that Moshi cannot spell."""
    body: dict[str, Any] = {theirs: getattr(config, ours) for theirs, ours in _NUMBERS.items()}
    body |= _ALWAYS
    body["delays"] = list(config.delays)
    body["hidden_scale"] = _spelled(config.dim, config.ffn_hidden_temporal) / config.dim
    if int(body["hidden_scale"] * config.dim) != _spelled(config.dim, config.ffn_hidden_temporal):
        body["hidden_scale"] = (_spelled(config.dim, config.ffn_hidden_temporal) + 0.5) / config.dim
    body["depformer_dim_feedforward"] = _spelled(config.depth_dim, config.ffn_hidden_depth)
    return {**body, "depformer_context": config.dep_q, "model_type": "moshi", **FILES}


def sizes_of(body: Mapping[str, Any], *, where: str) -> PersonaPlexConfig:
    """The sizes that a `config.json` names. Raises ConfigError for another architecture, or sizes that do not fit."""
    lacking = [name for name in (*_NUMBERS, "delays", "hidden_scale") if name not in body]
    other = [
        f"{name} is {body[name]!r}, not {value!r}"
        for name, value in _ALWAYS.items()
        if name in body and body[name] != value
    ]
    if lacking or other:
        raise ConfigError(
            "the model's config.json describes another architecture than Moshi's",
            where=where,
            faults=[*(f"{name} is missing" for name in lacking), *other],
            next_step="Give weights of Moshi or PersonaPlex.",
        )
    try:
        numbers = {ours: int(body[theirs]) for theirs, ours in _NUMBERS.items()}
        scale = float(body["hidden_scale"])
        depth = body.get("depformer_dim_feedforward") or int(scale * numbers["depth_dim"])
        return PersonaPlexConfig(
            **numbers,
            delays=tuple(int(delay) for delay in body["delays"]),
            ffn_hidden_temporal=_hidden(numbers["dim"], int(scale * numbers["dim"])),
            ffn_hidden_depth=_hidden(numbers["depth_dim"], int(depth)),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"the model's config.json cannot be used: {error}", where=where) from error


def _hidden(width: int, feed_forward: int) -> int:
    """The gated width that Moshi makes of a feed-forward size."""
    return 21 * width // 8 if feed_forward == 4 * width else 2 * feed_forward // 3


def _spelled(width: int, hidden: int) -> int:
    """A feed-forward size of which Moshi makes this gated width."""
    size = -(-3 * hidden // 2)
    for feed_forward in (size, size + 1, 4 * width):
        if _hidden(width, feed_forward) == hidden:
            return feed_forward
    raise ConfigError(
        f"Moshi's configuration cannot spell a gated width of {hidden} in a model of width {width}"
    )
