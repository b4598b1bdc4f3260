"""The language model against the released code's values, its inventory, and what delays and masks mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from tests.trainer.conftest import GoldenLM, random_codes, small_config


def record_into(outputs: dict[int, Tensor], block: int) -> Callable[[Tensor, int], Tensor]:
    def hook(native: Tensor, first_step: int) -> Tensor:
        assert first_step == 0
        outputs[block] = native
        return native

    return hook


@pytest.mark.parametrize("recompute", [False, True])
def test_forward_train_equals_the_released_code(golden_lm: GoldenLM, recompute: bool) -> None:
    """Every temporal block's output, logits and masks to 1e-4; lm_a is longer than its context."""
    lm, expected, blocks = golden_lm.lm, golden_lm.forward, {}
    hooks = {block: record_into(blocks, block) for block in range(lm.config.layers)}
    out = lm.forward_train(expected["codes"], hooks, recompute=recompute)
    for block in range(lm.config.layers):
        torch.testing.assert_close(blocks[block], expected[f"block_{block}"], atol=1e-4, rtol=0)
    torch.testing.assert_close(out.logits, expected["logits"], atol=1e-4, rtol=0, equal_nan=True)
    torch.testing.assert_close(out.text_logits, expected["text_logits"], atol=1e-4, rtol=0, equal_nan=True)
    assert torch.equal(out.mask, expected["mask"])
    assert torch.equal(out.text_mask, expected["text_mask"])


def test_released_inventory() -> None:
    """The seed's table: 475 tensors, 8,371,408,896 parameters, by family (seeds/000, section 5)."""
    with torch.device("meta"):
        state = PersonaPlexLM().state_dict()
    families = Counter[tuple[str, tuple[int, ...]]]()
    for name, value in state.items():
        family = ".".join("*" if part.isdigit() else part for part in name.split("."))
        families[family, tuple(value.shape)] += 1
    attention, norm = "self_attn.in_proj_weight", "alpha"
    assert families == {
        ("emb.*.weight", (2049, 4096)): 16,
        ("text_emb.weight", (32001, 4096)): 1,
        ("text_linear.weight", (32000, 4096)): 1,
        (f"transformer.layers.*.{attention}", (12288, 4096)): 32,
        ("transformer.layers.*.self_attn.out_proj.weight", (4096, 4096)): 32,
        ("transformer.layers.*.gating.linear_in.weight", (22528, 4096)): 32,
        ("transformer.layers.*.gating.linear_out.weight", (4096, 11264)): 32,
        (f"transformer.layers.*.norm1.{norm}", (1, 1, 4096)): 32,
        (f"transformer.layers.*.norm2.{norm}", (1, 1, 4096)): 32,
        (f"out_norm.{norm}", (1, 1, 4096)): 1,
        ("depformer_in.*.weight", (1024, 4096)): 16,
        ("depformer_emb.*.weight", (2049, 1024)): 15,
        ("depformer_text_emb.weight", (32001, 1024)): 1,
        (f"depformer.layers.*.{attention}", (49152, 1024)): 6,
        ("depformer.layers.*.self_attn.out_proj.weight", (16384, 1024)): 6,
        ("depformer.layers.*.gating.*.linear_in.weight", (5632, 1024)): 96,
        ("depformer.layers.*.gating.*.linear_out.weight", (1024, 2816)): 96,
        (f"depformer.layers.*.norm1.{norm}", (1, 1, 1024)): 6,
        (f"depformer.layers.*.norm2.{norm}", (1, 1, 1024)): 6,
        ("linears.*.weight", (2048, 1024)): 16,
    }
    assert len(state) == 475
    assert sum(value.numel() for value in state.values()) == 8_371_408_896


def test_masks_name_missing_targets_and_the_undelayed_tail() -> None:
    config = small_config()
    lm, codes = PersonaPlexLM.seeded(config, 0), random_codes(config, 9)
    codes[0, 5, 4] = -1
    out = lm.forward_train(codes)
    assert not out.mask[0, 4, 4]
    assert out.text_mask.all()
    assert out.logits[:, :, -1].isnan().all(-1).flatten().tolist() == [bool(d) for d in config.delays[1:]]
    assert int((~out.mask).sum()) == 14 + 1


@pytest.mark.parametrize("stream", [0, 1, 4, 9, 12])
def test_a_code_moves_only_what_comes_after_it(stream: int) -> None:
    """Causality by gradient-free probing: frame f of a stream reaches no text or semantic logits of f or before."""
    config = small_config()
    lm, codes, frame = PersonaPlexLM.seeded(config, 0).freeze(), random_codes(config, 12), 6
    before = lm.forward_train(codes)
    changed = codes.clone()
    changed[0, stream, frame] = (changed[0, stream, frame] + 1) % config.audio_card
    after = lm.forward_train(changed)
    same_text = (before.text_logits == after.text_logits).all(-1)[0, 0]
    reached = int((~same_text).nonzero()[0])
    # Step t reads position t: frame t − 1 of undelayed streams, frame t − 2 of acoustic ones.
    assert reached == frame + 1 + config.delays[stream]
    semantic = (before.logits == after.logits).all(-1)[0, 0]
    assert semantic[:frame].all()
    # Text and agent codes of the frame condition later codebooks of the same position.
    assert bool(semantic[frame]) == (stream != 0)


def test_gradients_pass_through_the_frozen_model() -> None:
    config = small_config()
    lm = PersonaPlexLM.seeded(config, 0).freeze()
    push = torch.zeros(config.dim, requires_grad=True)
    out = lm.forward_train(random_codes(config, 8), {0: lambda native, _: native + push})
    out.text_logits.square().sum().backward()
    assert push.grad is not None
    assert push.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in lm.parameters())


def test_recompute_changes_no_gradient() -> None:
    config, grads = small_config(), []
    for recompute in (False, True):
        lm = PersonaPlexLM.seeded(config, 0)
        out = lm.forward_train(random_codes(config, 10), recompute=recompute)
        (out.text_logits.sum() + out.logits[out.mask].square().sum()).backward()
        grads.append({name: parameter.grad for name, parameter in lm.named_parameters()})
    assert all(torch.equal(grads[0][name], grads[1][name]) for name in grads[0])


def test_seeded_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = PersonaPlexLM.seeded(small_config(), 5).state_dict()
    state = torch.get_rng_state()
    second = PersonaPlexLM.seeded(small_config(), 5).state_dict()
    other = PersonaPlexLM.seeded(small_config(), 6).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["text_emb.weight"], other["text_emb.weight"])


def test_ids_that_are_no_input_to_a_model_are_refused() -> None:
    config = small_config()
    lm, codes = PersonaPlexLM.seeded(config, 0), random_codes(config, 6)
    for stream, value in ((0, -2), (3, config.audio_card + 1)):
        wrong = codes.clone()
        wrong[0, stream, 2] = value
        with pytest.raises(UsageError, match=f"stream {stream}: ids must be"):
            lm.forward_train(wrong)
    with pytest.raises(UsageError, match=r"must be \[B, 17, T\]"):
        lm.forward_train(codes[:, :9])
    with pytest.raises(IndexError, match="no temporal block 4"):
        lm.forward_train(codes, {4: lambda native, _: native})


def test_a_configuration_names_all_its_faults() -> None:
    with pytest.raises(ConfigError) as caught:
        small_config(heads=5, dep_q=17)
    assert len(caught.value.faults) == 2
    with pytest.raises(ConfigError, match="delays needs 17 entries"):
        PersonaPlexConfig(delays=(0, 1))
