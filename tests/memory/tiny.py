"""Inklings of width 16 with a vocabulary of 300 and all 42 blocks, in the formats of transformers' checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import InklingConfig, InklingForCausalLM, InklingForConditionalGeneration, InklingTextConfig

AUDIO_TOKEN, IMAGE_TOKEN = 290, 291


def text_fields(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": 300,
        "hidden_size": 16,
        "num_hidden_layers": 42,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "swa_num_attention_heads": 2,
        "swa_num_key_value_heads": 1,
        "swa_head_dim": 8,
        "sliding_window_size": 8,
        "d_rel": 4,
        "rel_extent": 16,
        "dense_mlp_idx": 2,
        "intermediate_size": 32,
        "moe_intermediate_size": 8,
        "n_routed_experts": 2,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "initializer_range": 0.2,
        **changes,
    }


def save_text_model(folder: Path, **changes: Any) -> InklingForCausalLM:
    torch.manual_seed(0)
    model = InklingForCausalLM(InklingTextConfig(**text_fields(**changes))).eval()
    model.save_pretrained(folder)
    return model


def save_full_model(folder: Path) -> InklingForConditionalGeneration:
    torch.manual_seed(0)
    config = InklingConfig(
        text_config=text_fields(),
        audio_config={"n_mel_bins": 80, "mel_vocab_size": 16},
        vision_config={"patch_size": 2, "temporal_patch_size": 2, "num_hidden_layers": 2},
        audio_token_id=AUDIO_TOKEN,
        image_token_id=IMAGE_TOKEN,
    )
    model = InklingForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    return model
