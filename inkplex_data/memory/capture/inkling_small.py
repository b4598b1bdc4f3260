"""The small Inkling: every kind of part and all 42 blocks of the released one, in 15 million random weights.

It captures any recording of Inkling's vocabulary in seconds, and what it captures means nothing.
"""

from __future__ import annotations

from typing import Any, Final

from inkplex_data.memory.capture.inkling_source import BLOCKS

SMALL_WIDTH: Final = 64
_DMEL_BINS: Final = 16
# Kept at float32 by transformers whatever the dtype of the rest (InklingPreTrainedModel).
_FLOAT32: Final = ("sconv", "e_score_correction_bias", "gate.global_scale")


def small_config() -> Any:
    """An `InklingTextConfig`. As in Inkling Small: blocks, the order of attention kinds, two dense blocks, vocabulary.

    A window of 64 and a relative extent of 128 come into play in short tests. Every expert is always taken:
    near ties between experts would make states depend on how a context is cut even in float32.
    """
    from transformers import InklingTextConfig

    return InklingTextConfig(
        vocab_size=201_024,
        hidden_size=SMALL_WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        swa_num_attention_heads=4,
        swa_num_key_value_heads=4,
        swa_head_dim=16,
        sliding_window_size=64,
        d_rel=8,
        rel_extent=128,
        log_scaling_n_floor=256,
        dense_mlp_idx=2,
        intermediate_size=128,
        moe_intermediate_size=32,
        n_routed_experts=4,
        num_experts_per_tok=4,
        n_shared_experts=1,
        route_scale=1.0,
        logits_mup_width_multiplier=16.0,
        # One over the root of the width keeps every block's share of the residual stream visible.
        initializer_range=SMALL_WIDTH**-0.5,
        bos_token_id=None,
        eos_token_id=None,
    )


def build_small(seed: int, dtype: Any) -> tuple[Any, Any]:
    """`InklingTextModel` and `InklingAudioModel` with seeded weights, cast as a checkpoint's would be."""
    import torch
    from transformers import InklingAudioConfig, InklingTextModel
    from transformers.models.inkling.modeling_inkling import InklingAudioModel

    audio_config = InklingAudioConfig(
        n_mel_bins=80,
        mel_vocab_size=_DMEL_BINS,
        text_hidden_size=SMALL_WIDTH,
        initializer_range=SMALL_WIDTH**-0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        text = InklingTextModel(small_config())
        audio = InklingAudioModel(audio_config)
    for model in (text, audio):
        for name, parameter in model.named_parameters():
            if not any(kept in name for kept in _FLOAT32):
                parameter.data = parameter.data.to(dtype)
    return text, audio
