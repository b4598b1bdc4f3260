"""Readers inside the model: untouched logits at the start, blocked gradients, live memory against training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inkplex_data.errors import ConfigError
from inkplex_data.trainer.memory.connector import (
    Attachment,
    CallMemory,
    ConnectedLM,
    MemoryReaders,
    reader_blocks,
)
from inkplex_data.trainer.memory.streaming_memory import LiveMemory
from inkplex_data.trainer.model.generator import StreamingGenerator
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.run.objective import voice_and_text_loss
from tests.trainer.conftest import random_codes, random_memory, small_config


def connected(dtype: torch.dtype = torch.float32, *, trained: bool = False) -> ConnectedLM:
    torch.manual_seed(1)
    lm = PersonaPlexLM.seeded(small_config(), 0).to(dtype).freeze()
    modules = MemoryReaders(lm.config, state_width=12, slot_width=16)
    if trained:
        for reader in modules.readers:
            torch.nn.init.normal_(reader.output.weight, std=0.2)
            torch.nn.init.normal_(reader.output.bias, std=0.2)
    return ConnectedLM(lm, modules)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_readers_leave_every_logit_bit_identical(dtype: torch.dtype) -> None:
    model, codes = connected(dtype), random_codes(small_config(), 24)
    plain, _ = model(codes, None)
    read, strength = model(codes, random_memory())
    for name in ("logits", "text_logits", "mask", "text_mask"):
        ours, theirs = getattr(read, name), getattr(plain, name)
        assert torch.equal(torch.nan_to_num(ours), torch.nan_to_num(theirs))
    assert strength.ratio() == [0.0] * 4


def test_the_first_backward_moves_output_projections_only() -> None:
    """Zero output weights block the way to everything before them, exactly (seeds/000, section 6)."""
    model, codes = connected(), random_codes(small_config(), 24)
    out, _ = model(codes, random_memory())
    roles = torch.full((1, 24), 2)
    voice_and_text_loss(out.text_logits, out.logits, codes, roles, torch.tensor([24])).loss().backward()
    assert all(parameter.grad is None for parameter in model.lm.parameters())
    for name, parameter in model.memory.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        moved = bool((parameter.grad != 0).any())
        assert moved == (".output." in name), name


def test_the_second_step_reaches_everything() -> None:
    model, codes = connected(), random_codes(small_config(), 24)
    optimizer = torch.optim.AdamW(model.memory.parameters(), lr=1e-2)
    roles, frames = torch.full((1, 24), 2), torch.tensor([24])
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        out, _ = model(codes, random_memory())
        loss = voice_and_text_loss(out.text_logits, out.logits, codes, roles, frames).loss()
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert all((parameter.grad != 0).any() for parameter in model.memory.parameters())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("limit", [1, 5, 131_072])
def test_the_plan_changes_no_result(limit: int) -> None:
    model, codes, memory = connected(trained=True), random_codes(small_config(), 24), random_memory()
    whole, _ = model(codes, memory)
    part, _ = model(codes, memory, chunks=memory.plan(24, limit), recompute=True)
    torch.testing.assert_close(part.text_logits, whole.text_logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(part.logits, whole.logits, atol=1e-5, rtol=0, equal_nan=True)


def test_memory_moves_logits_only_from_its_arrival_on() -> None:
    """Nothing before the first visible step changes, and the first visible step does."""
    model, codes, first = connected(trained=True), random_codes(small_config(), 24), 9
    plain, _ = model(codes, None)
    memory = random_memory(first_visible=first, seed=3)
    read, strength = model(codes, memory)
    same = (plain.text_logits == read.text_logits).all(-1)[0, 0].tolist()
    assert same == [step < int(memory.start.min()) for step in range(24)]
    assert all(value > 0 for value in strength.ratio())


def test_read_strength_counts_real_steps_only() -> None:
    model, codes, memory = connected(trained=True), random_codes(small_config(), 24), random_memory()
    attached = Attachment(model.memory, memory, frames=10)
    seen: dict[int, tuple[Tensor, Tensor]] = {}

    def spying(block: int, hook):  # type: ignore[no-untyped-def]
        def after(native: Tensor, first: int) -> Tensor:
            out = hook(native, first)
            seen[block] = native, out - native
            return out

        return after

    model.lm.forward_train(
        codes, {block: spying(block, hook) for block, hook in attached.after_block.items()}
    )
    for ratio, (native, residual) in zip(attached.strength.ratio(), seen.values(), strict=True):
        expected = residual[0, :10].norm(dim=-1).mean() / native[0, :10].norm(dim=-1).mean()
        assert ratio == pytest.approx(float(expected.detach()), rel=1e-4)


def streamed(model: ConnectedLM, codes: Tensor, memory: CallMemory, prefix: int) -> Tensor:
    live = LiveMemory(model.memory, memory)
    generator = StreamingGenerator(model.lm, ring="exact", after_block=live.after_block)
    generator.replay(codes[..., :prefix])
    steps = [generator.step(codes[..., t], logits=True) for t in range(prefix, codes.shape[-1])]
    return torch.stack([step.text_logits[0] for step in steps])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prefix", [0, 6])
def test_generation_reads_the_memory_that_training_reads(seed: int, prefix: int) -> None:
    """Step by step through the kept keys and values, and several at once through the replayed prefix."""
    model, codes = connected(trained=True), random_codes(small_config(), 24)
    memory = random_memory(tokens=20, versions=120, seed=seed, first_visible=2)
    out, _ = model(codes, memory)
    expected = out.text_logits[0, 0, prefix:]
    torch.testing.assert_close(streamed(model, codes, memory, prefix), expected, atol=1e-4, rtol=0)


def test_live_memory_projects_each_version_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, codes = connected(trained=True), random_codes(small_config(), 24)
    memory = random_memory(tokens=20, versions=120, first_visible=2)
    live, made = LiveMemory(model.memory, memory), []
    slots = live._slots
    monkeypatch.setattr(live, "_slots", lambda columns: (made.extend(columns.tolist()), slots(columns))[1])
    generator = StreamingGenerator(model.lm, after_block=live.after_block)
    for step in range(24):
        generator.step(codes[..., step], logits=True)
    assert sorted(made) == torch.nonzero(memory.start < 24).flatten().tolist()
    per_step = [int(((memory.start <= t) & (t < memory.end)).sum()) for t in range(25)]
    assert live._bank.shape[3] == max(per_step)


def test_live_memory_may_go_back() -> None:
    model, memory = connected(trained=True), random_memory(tokens=20, versions=120, first_visible=0)
    native = torch.randn(1, 1, 32)
    again = LiveMemory(model.memory, memory).after_block[0]
    fresh = {step: LiveMemory(model.memory, memory).after_block[0](native, step) for step in (3, 9, 20)}
    for step in (3, 20, 9, 3):
        torch.testing.assert_close(again(native, step), fresh[step], atol=1e-6, rtol=0)


def test_an_empty_memory_is_the_native_model() -> None:
    model, codes = connected(trained=True), random_codes(small_config(), 8)
    full = random_memory()
    none = CallMemory(
        full.states[:0],
        full.text_features[:0],
        full.kind[:0],
        *(getattr(full, name)[:0] for name in ("row", "start", "end", "recency", "age", "whole")),
    )
    plain, _ = model(codes, None)
    read, _ = model(codes, none)
    assert torch.equal(plain.text_logits, read.text_logits)
    assert torch.equal(streamed(model, codes, none, 2)[-1], streamed_baseline(model, codes))


def streamed_baseline(model: ConnectedLM, codes: Tensor) -> Tensor:
    generator = StreamingGenerator(model.lm, ring="exact")
    generator.replay(codes[..., :2])
    return [generator.step(codes[..., t], logits=True) for t in range(2, 8)][-1].text_logits[0]


def test_memory_is_read_one_call_at_a_time() -> None:
    model, codes = connected(), random_codes(small_config(), 6, batch=2)
    with pytest.raises(ValueError, match="one call at a time"):
        model(codes, random_memory(steps=6))


def test_reader_places() -> None:
    assert reader_blocks(32) == (7, 15, 23, 31)
    assert reader_blocks(8) == (1, 3, 5, 7)
    assert reader_blocks(4) == (0, 1, 2, 3)
    with pytest.raises(ConfigError, match="multiple of four"):
        reader_blocks(6)
