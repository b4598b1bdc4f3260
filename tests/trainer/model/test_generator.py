"""Streaming generation: released tokens, parity with training, prime frame, provided slots, sampling."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inkplex_data.errors import UsageError
from inkplex_data.trainer.model import generator as generator_module
from inkplex_data.trainer.model.cache import RingKind
from inkplex_data.trainer.model.generator import StreamingGenerator
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.sampling import Sampling, sample
from tests.trainer.conftest import GoldenLM, random_codes, small_config

NOTHING = -9
GREEDY = Sampling(text_temperature=0.0, audio_temperature=0.0)


def released_calls(golden_lm: GoldenLM, ring: RingKind) -> Tensor:
    """The golden run: 24 calls without a prime frame, the first 8 forced; [24, 17], −9 where nothing comes out."""
    values, rows = golden_lm.generate, []
    generator = StreamingGenerator(golden_lm.lm, sampling=GREEDY, ring=ring, prime=False)
    for call in range(values["user"].shape[-1]):
        forced = call < golden_lm.forced_steps
        frame = generator.frame(
            caller=values["user"][..., call],
            text=values["forced_text"][call : call + 1] if forced else None,
            agent=values["forced_agent"][..., call] if forced else None,
        )
        out = generator.step(frame)
        rows.append(torch.full((17,), NOTHING) if out.codes is None else out.codes[0])
    return torch.stack(rows)


def test_greedy_steps_give_every_released_token(golden_lm: GoldenLM) -> None:
    assert torch.equal(released_calls(golden_lm, "released"), golden_lm.generate["outputs"])


def test_the_golden_run_needs_the_hidden_slot(golden_lm: GoldenLM) -> None:
    """With the exact ring, tokens change once the context is full (lm_a); lm_b never fills it."""
    same = torch.equal(released_calls(golden_lm, "exact"), golden_lm.generate["outputs"])
    assert same == (golden_lm.lm.config.context > golden_lm.generate["user"].shape[-1])


def forced_logits(lm: PersonaPlexLM, codes: Tensor, ring: RingKind) -> tuple[Tensor, Tensor]:
    """Logits by step: text [T, C] and audio [dep_q, T, K]."""
    generator = StreamingGenerator(lm, ring=ring)
    steps = [generator.step(codes[..., t], logits=True) for t in range(codes.shape[-1])]
    assert [step.step for step in steps] == list(range(codes.shape[-1]))
    text = torch.stack([step.text_logits[0] for step in steps])
    return text, torch.stack([step.audio_logits[0] for step in steps], dim=1)


def test_streamed_forcing_equals_the_full_sequence_past_the_wrap(golden_lm: GoldenLM) -> None:
    """At every position, with the exact ring; lm_a wraps its context of 20."""
    lm, codes = golden_lm.lm, golden_lm.forward["codes"][:1].clone()
    out = lm.forward_train(codes)
    text, audio = forced_logits(lm, codes, "exact")
    torch.testing.assert_close(text, out.text_logits[0, 0], atol=1e-4, rtol=0)
    aligned, mask = lm.delays.align(audio[None], first_stream=1)
    torch.testing.assert_close(aligned[mask], out.logits[:, :, :][mask], atol=1e-4, rtol=0)
    assert int((~mask).sum()) == 14


def test_the_released_ring_differs_where_it_hides_a_key() -> None:
    """In depth at q15 only, and in time from the step that fills the context."""
    config = small_config(context=8)
    lm, codes = PersonaPlexLM.seeded(config, 1).freeze(), random_codes(config, 14)
    exact, released = forced_logits(lm, codes, "exact"), forced_logits(lm, codes, "released")
    same_text = (exact[0] - released[0]).abs().amax(dim=-1) < 1e-6
    assert same_text.tolist() == [True] * 7 + [False] * 7
    same_audio = (exact[1] - released[1]).abs().amax(dim=-1) < 1e-6
    assert same_audio[:15, :7].all()
    assert not same_audio[15].any()


@pytest.mark.parametrize("ring", ["released", "exact"])
@pytest.mark.parametrize("block", [1, 3, 16, 256])
def test_replaying_in_blocks_changes_nothing(
    ring: RingKind, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefix steps run through the temporal model together, across the wrap of the context."""
    config = small_config(context=8)
    lm, codes = PersonaPlexLM.seeded(config, 2).freeze(), random_codes(config, 21)
    expected = forced_logits(lm, codes, ring)[0][-1]
    monkeypatch.setattr(generator_module, "REPLAY_BLOCK", block)
    generator = StreamingGenerator(lm, ring=ring)
    emitted = generator.replay(codes[..., :-1])
    last = generator.step(codes[..., -1], logits=True)
    torch.testing.assert_close(last.text_logits[0], expected, atol=1e-5, rtol=0)
    assert torch.equal(
        torch.stack([step.codes for step in emitted if step.codes is not None], -1), codes[..., :-2]
    )
    assert [step.frame for step in emitted] == [None, *range(19)]


def test_training_and_generation_read_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prime frame and delays together: what reaches the embedding is one sequence, prefix included."""
    config = small_config()
    lm, codes = PersonaPlexLM.seeded(config, 0).freeze(), random_codes(config, 18)
    codes[:, 9:, 11:] = -1
    seen: list[Tensor] = []
    embed = lm.embed
    monkeypatch.setattr(lm, "embed", lambda ids: (seen.append(ids.clone()), embed(ids))[1])
    lm.forward_train(codes)
    generator = StreamingGenerator(lm)
    generator.replay(codes[..., :10])
    for frame in range(10, 18):
        generator.step(codes[..., frame], logits=True)
    assert torch.equal(torch.cat(seen[1:], dim=-1), seen[0])


def test_without_a_prime_frame_the_first_tokens_are_lost() -> None:
    config = small_config()
    lm, codes = PersonaPlexLM.seeded(config, 0).freeze(), random_codes(config, 6)
    released = StreamingGenerator(lm, prime=False)
    first = released.step(codes[..., 0])
    assert (first.step, first.codes) == (-1, None)
    primed = StreamingGenerator(lm)
    for frame in range(1, 6):
        ours = primed.step(codes[..., frame], logits=True)
        theirs = released.step(codes[..., frame], logits=True)
        assert torch.equal(ours.text_logits, theirs.text_logits)
        assert torch.equal(ours.audio_logits, theirs.audio_logits)


def test_provided_ids_come_out_and_free_ones_feed_back() -> None:
    """A generated call, forced back through another generator, gives the same logits: its own past is what it
    said, and provided codes stand where they were given."""
    config = small_config(context=6)
    lm, given = PersonaPlexLM.seeded(config, 3).freeze(), random_codes(config, 12)
    given[:, :9, 4:] = -2
    given[:, 3, 7] = 5
    generator = StreamingGenerator(lm, seed=4)
    steps = [generator.step(given[..., t], logits=True) for t in range(12)]
    made = torch.stack([step.codes for step in steps if step.codes is not None], dim=-1)
    assert made.shape[-1] == 11
    assert torch.equal(made[given[..., :11] >= 0], given[..., :11][given[..., :11] >= 0])
    assert (made >= 0).all()
    again = forced_logits(lm, made, "released")
    torch.testing.assert_close(
        again[0], torch.stack([s.text_logits[0] for s in steps[:11]]), atol=1e-5, rtol=0
    )


def test_batches_are_independent_and_provide_separately() -> None:
    config = small_config()
    lm, codes = PersonaPlexLM.seeded(config, 0).freeze(), random_codes(config, 8, batch=2)
    codes[1, :9, 3:] = -2
    both = StreamingGenerator(lm, batch=2, sampling=GREEDY)
    alone = StreamingGenerator(lm, sampling=GREEDY)
    for t in range(8):
        together, single = both.step(codes[..., t]), alone.step(codes[1:, :, t])
        if single.codes is not None:
            assert torch.equal(together.codes[1:], single.codes)


def test_seeds_repeat_and_differ() -> None:
    config = small_config()
    lm, frame = PersonaPlexLM.seeded(config, 0).freeze(), random_codes(config, 1)
    free = torch.full_like(frame[..., 0], -2)

    def run(seed: int) -> list[list[int]]:
        generator = StreamingGenerator(lm, seed=seed)
        return [out.codes[0].tolist() for _ in range(10) if (out := generator.step(free)).codes is not None]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_sampling_keeps_to_the_top_k_in_proportion() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0, -1.0]]).repeat(20_000, 1)
    drawn = sample(logits, temperature=0.5, top_k=3, generator=torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=5) / len(drawn)
    expected = torch.zeros(5)
    expected[[1, 2, 3]] = torch.softmax(torch.tensor([3.0, 1.0, 2.0]) / 0.5, dim=0)
    assert (share - expected).abs().max() < 0.015
    assert share[[0, 4]].sum() == 0
    assert sample(logits[:1], temperature=0.0, top_k=3, generator=torch.Generator()).item() == 1


def test_defaults_are_the_released_sampling() -> None:
    assert Sampling() == Sampling(0.7, 25, 0.8, 250)
    for wrong in ({"text_temperature": float("nan")}, {"audio_temperature": -0.1}, {"text_top_k": -1}):
        with pytest.raises(UsageError, match="0 or more"):
            Sampling(**wrong)


def test_what_cannot_be_generated_is_refused() -> None:
    config = small_config(dep_q=8)
    lm = PersonaPlexLM.seeded(config, 0).freeze()
    generator = StreamingGenerator(lm)
    generator.step(torch.full((1, 17), -2))
    with pytest.raises(UsageError, match="stream 9 is not predicted"):
        generator.step(torch.full((1, 17), -2))
    with pytest.raises(UsageError, match=r"\[1, 17\] ids"):
        StreamingGenerator(lm).step(torch.zeros(1, 9))
    with pytest.raises(UsageError, match="'released' or 'exact'"):
        StreamingGenerator(lm, ring="other")
