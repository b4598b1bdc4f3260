"""The objective against independent values, and what weighs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.trainer.model.delays import RELEASED_DELAYS
from inkplex_data.trainer.run.objective import (
    PARTS,
    PRESETS,
    LossSums,
    ObjectiveWeights,
    denominators,
    objective_weights,
    target_parts,
    voice_and_text_loss,
)

ROLES = {"pad": 0, "epad": 1, "first_piece": 2, "later_piece": 3, "prefix": 4, "padding": 255}


@pytest.fixture(scope="module")
def update(golden: Path) -> dict[str, Any]:
    return json.loads((golden / "memory" / "objective.json").read_text())


def call_sums(call: dict[str, Any], delays: list[int], dtype: torch.dtype) -> LossSums:
    return voice_and_text_loss(
        torch.tensor(call["text_logits"], dtype=dtype)[None, None],
        torch.tensor(call["audio_logits"], dtype=dtype)[None],
        torch.tensor([call["text_targets"], *call["audio_targets"]])[None],
        torch.tensor([[ROLES[role] for role in call["roles"]]]),
        torch.tensor([call["live_frames"]]),
        delays=delays,
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_an_update_of_two_calls_equals_the_golden_values(
    update: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    given_weights, expected = update["weights"], update["expected"]
    stage1 = PRESETS["stage1"]
    assert (stage1.first_piece, stage1.later_piece) == (given_weights["text_piece"],) * 2
    assert (stage1.pad, stage1.epad) == (given_weights["text_padding"],) * 2
    assert (stage1.semantic, stage1.acoustic) == (given_weights["semantic"], given_weights["acoustic"])
    first, second = (call_sums(call, update["delays"], dtype) for call in update["calls"])
    sums = first + second
    for name in (
        "text_numerator",
        "text_denominator",
        "voice_numerator",
        "voice_denominator",
        "text",
        "voice",
    ):
        assert float(getattr(sums, name)) == pytest.approx(expected[name], abs=tolerance), name
    assert float(sums.loss()) == pytest.approx(expected["loss"], abs=tolerance)
    assert sums.parts() == pytest.approx(expected["parts"], abs=tolerance)
    assert set(sums.parts()) == set(PARTS)
    # Accumulation: each call divided by the update's totals gives the same loss in two pieces.
    totals = sums.text_denominator, sums.voice_denominator
    assert float(first.loss(*totals) + second.loss(*totals)) == pytest.approx(expected["loss"], abs=tolerance)


def random_case(frames: int, *, seed: int = 0, batch: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    text = torch.randn(batch, 1, frames, 7, generator=draw, dtype=torch.float64)
    audio = torch.randn(batch, 16, frames, 5, generator=draw, dtype=torch.float64)
    codes = torch.randint(0, 5, (batch, 17, frames), generator=draw)
    return text, audio, codes, torch.randint(0, 5, (batch, frames), generator=draw)


def by_hand(
    text: Tensor,
    audio: Tensor,
    codes: Tensor,
    roles: Tensor,
    frames: Tensor,
    mask: Tensor,
    weights: ObjectiveWeights,
) -> dict[str, float]:
    """One place at a time, in plain Python."""
    sums = dict.fromkeys(("text", "text_weight", "voice", "voice_weight"), 0.0)
    by_role = [weights.pad, weights.epad, weights.first_piece, weights.later_piece]
    for b in range(codes.shape[0]):
        for t in range(int(frames[b])):
            if roles[b, t] == 4:
                continue
            for stream, delay in enumerate(RELEASED_DELAYS):
                target, bits = int(codes[b, stream, t]), int(mask[b, t])
                if target < 0 or t >= int(frames[b]) - delay:
                    continue
                if stream == 0:
                    kind, weight, bit, logits = "text", by_role[int(roles[b, t])], 1, text[b, 0, t]
                else:
                    weight = weights.semantic if stream in (1, 9) else weights.acoustic
                    weight *= 1.0 if stream < 9 or weights.caller else 0.0
                    kind, bit, logits = "voice", 2 if stream < 9 else 4, audio[b, stream - 1, t]
                if bits & bit and weight:
                    sums[kind] += weight * float(-F.log_softmax(logits, -1)[target])
                    sums[f"{kind}_weight"] += weight
    return sums


WEIGHT = st.sampled_from([0.0, 0.02, 0.3, 1.0, 100.0])


@given(
    frames=st.integers(1, 8),
    live=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    seed=st.integers(0, 10_000),
    weights=st.builds(ObjectiveWeights, WEIGHT, WEIGHT, WEIGHT, WEIGHT, WEIGHT, WEIGHT, st.booleans()),
)
@settings(deadline=None, max_examples=40)
def test_sums_equal_a_plain_loop(
    frames: int, live: tuple[int, int], seed: int, weights: ObjectiveWeights
) -> None:
    """Any weights, masks, roles, lengths and missing targets; unweighted places hold NaN."""
    text, audio, codes, roles = random_case(frames, seed=seed)
    draw = torch.Generator().manual_seed(seed + 1)
    codes[torch.rand(codes.shape, generator=draw) < 0.1] = -1
    mask = torch.randint(0, 8, roles.shape, generator=draw).to(torch.uint8)
    lengths = torch.tensor(live).clamp(max=frames)
    parts = target_parts(codes, roles, lengths, dep_q=16, mask=mask, weights=weights)
    text[parts[:, :1] < 0] = torch.nan
    audio[parts[:, 1:] < 0] = torch.nan
    text.requires_grad_()
    audio.requires_grad_()
    sums = voice_and_text_loss(text, audio, codes, roles.to(torch.uint8), lengths, mask=mask, weights=weights)
    expected = by_hand(text.detach(), audio.detach(), codes, roles, lengths, mask, weights)
    assert float(sums.detach().text_numerator) == pytest.approx(expected["text"], abs=1e-9)
    assert float(sums.detach().voice_numerator) == pytest.approx(expected["voice"], abs=1e-9)
    assert float(sums.text_denominator) == pytest.approx(expected["text_weight"], abs=1e-9)
    assert float(sums.voice_denominator) == pytest.approx(expected["voice_weight"], abs=1e-9)
    totals = denominators(parts, weights)
    assert torch.equal(totals[0], sums.text_denominator)
    assert torch.equal(totals[1], sums.voice_denominator)
    loss = sums.loss()
    assert loss.isfinite()
    loss.backward()
    for logits, part in ((text, parts[:, :1]), (audio, parts[:, 1:])):
        assert logits.grad.isfinite().all()
        assert (logits.grad[part < 0] == 0).all()


def test_presets_and_changes() -> None:
    """seeds/002: 214 of weight over one column, so a text CE of 0.90 and the given audio CEs make 3.4659."""
    moshi = PRESETS["moshi"]
    assert (moshi.semantic, moshi.acoustic, moshi.pad, moshi.epad, moshi.caller) == (
        100.0,
        1.0,
        0.5,
        0.5,
        True,
    )
    assert (moshi.first_piece, moshi.later_piece) == (1.0, 1.0)
    targets = [0.90, 2.10, *[5.50] * 7, 2.60, *[5.80] * 7]
    # Two classes: a logit that makes the loss of class 0 exactly the wanted number of nats.
    gaps = [torch.tensor(nats, dtype=torch.float64).expm1().log() for nats in targets]
    logits = torch.stack([torch.stack([torch.zeros_like(gap), gap]) for gap in gaps]).view(1, 17, 1, 2)
    logits = logits.repeat(1, 1, 2, 1)  # a second frame, so that delayed streams have a target
    codes = torch.zeros(1, 17, 2, dtype=torch.long)
    codes[..., 1] = -1
    sums = voice_and_text_loss(
        logits[:, :1], logits[:, 1:], codes, torch.full((1, 2), 2), torch.tensor([2]), weights="moshi"
    )
    assert float(sums.voice_denominator) == 214
    assert float(sums.voice_numerator) == pytest.approx(549.1)
    assert float(sums.loss()) == pytest.approx(3.4659, abs=5e-5)
    assert objective_weights("stage1", epad=0.6, caller=False) == ObjectiveWeights(epad=0.6, caller=False)
    with pytest.raises(ConfigError, match="no objective preset 'stage2'"):
        objective_weights("stage2")
    with pytest.raises(ConfigError, match="padding"):
        objective_weights("moshi", padding=0.1)
    with pytest.raises(ConfigError, match="pad must be 0 or more, got -1"):
        ObjectiveWeights(pad=-1.0)


def test_nothing_to_learn_from_is_zero_loss() -> None:
    text, audio, codes, _ = random_case(4)
    sums = voice_and_text_loss(text, audio, codes, torch.full((2, 4), 4), torch.tensor([4, 4]))
    assert float(sums.loss()) == 0
    assert sums.parts() == {}


def test_too_few_delays_are_refused() -> None:
    text, audio, codes, roles = random_case(3)
    with pytest.raises(UsageError, match="16 delays or more, got 8"):
        voice_and_text_loss(text, audio, codes, roles, torch.tensor([3, 3]), delays=[0] * 8)
