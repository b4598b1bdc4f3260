"""What is learned and what is only perceived; observation and stride; generation and dreams."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from inkplex_data.errors import UsageError
from inkplex_data.soma.learner.learner import Learner
from inkplex_data.soma.learner.soma_diagnostics import diagnose
from inkplex_data.soma.tokens.protocol import TargetWeights
from inkplex_data.soma.tokens.soma_tokenizer import DREAM, SHA256, SOMA, STATE, TURN, UNKNOWN, USER
from tests.soma.learner.conftest import SMALL, batch_of, same, weights_of

TEXT = np.arange(700, 716)


def literal_bank(learner: Learner, ids: list[int]) -> torch.Tensor:
    """The traces of a fresh bank that ticked through `ids`."""
    other = Learner.fresh(learner.config, SHA256)
    for token in ids:
        other.bank.tick(token)
    return other.bank.traces


def test_a_repeated_text_is_learned(learner: Learner) -> None:
    reports = [learner.learn(batch_of(TEXT)) for _ in range(12)]
    assert reports[0].bits_per_byte == pytest.approx(math.log2(8192) / 3, rel=0.05)
    assert reports[-1].bits_per_byte < 0.5 * reports[0].bits_per_byte
    assert reports[-1].top1 >= 0.9
    assert reports[-1].top5 >= reports[-1].top1
    assert reports[-1].learning_rate < reports[0].learning_rate == SMALL.learning_rate
    assert [report.tokens for report in reports] == [16] * 12
    assert learner.counts.tokens == 12 * 16
    assert learner.counts.source_bytes == 12 * 48
    assert learner.counts.updates == 12
    assert learner.bytes_per_token == pytest.approx(3)


def test_a_batch_that_is_too_long_is_learned_in_parts(learner: Learner) -> None:
    """What a user pastes may be of any length."""
    other = Learner.fresh(SMALL, SHA256)
    long = np.resize(TEXT, 40)
    at_once, parts = (
        learner.learn(batch_of(long)),
        [other.learn(batch_of(long[at : at + 16])) for at in (0, 16, 32)],
    )
    assert same(weights_of(learner), weights_of(other))
    assert (at_once.tokens, at_once.source_bytes, learner.counts.updates) == (40, 120, 3)
    assert at_once.nats == pytest.approx(sum(part.nats for part in parts))
    assert at_once.bits_per_byte == pytest.approx(at_once.nats / 120 / math.log(2))
    assert at_once.top1 == pytest.approx((16 * parts[0].top1 + 16 * parts[1].top1 + 8 * parts[2].top1) / 40)
    assert at_once.learning_rate == parts[-1].learning_rate


def test_no_gradient_stays_behind_and_the_state_crosses_batches(learner: Learner) -> None:
    learner.learn(batch_of(TEXT))
    assert all(value.grad is None for value in learner.network.parameters())
    learner.learn(batch_of(TEXT[::-1].copy()))
    assert torch.allclose(learner.bank.traces, literal_bank(learner, [*TEXT, *TEXT[::-1]]), atol=1e-12)


def test_the_gradient_is_clipped() -> None:
    """Adam's first step does not depend on the gradient's size, its second moment does."""
    loose, tight = (Learner.fresh(replace(SMALL, gradclip=bound), SHA256) for bound in (1e6, 1e-3))
    for learner in (loose, tight):
        learner.learn(batch_of(TEXT))

    def norm(learner: Learner) -> float:
        seconds = [
            learner.optimizer.state[value]["exp_avg_sq"].sum() for value in learner.network.parameters()
        ]
        return math.sqrt(float(sum(seconds)) / 0.001)

    assert norm(tight) == pytest.approx(1e-3, rel=1e-3)
    assert norm(loose) > 0.1


def test_state_perception_without_direct_state_token_weight_updates(learner: Learner) -> None:
    before = weights_of(learner)
    learner.perceive([STATE, 900, 901, TURN])
    report = learner.learn(batch_of([STATE, *TEXT[:14], TURN], weights=0.0))
    assert same(before, weights_of(learner))
    assert learner.counts.updates == 0
    assert (report.nats, report.source_bytes, report.tokens) == (0, 0, 16)
    assert all(math.isnan(value) for value in (report.bits_per_byte, report.top1, report.top5))
    assert torch.allclose(
        learner.bank.traces, literal_bank(learner, [STATE, 900, 901, TURN, STATE, *TEXT[:14], TURN])
    )
    assert learner.io2.loss == learner.io2.chance


def test_masked_tokens_are_in_no_account(learner: Learner) -> None:
    """A batch of which half is masked reports what its other half does, which has the same past."""
    weights = np.repeat([1.0, 0.0], 8)
    other = Learner.fresh(SMALL, SHA256)
    half, alone = learner.learn(batch_of(TEXT, weights)), other.learn(batch_of(TEXT[:8]))
    assert half.nats == pytest.approx(alone.nats, rel=1e-6)
    assert (half.source_bytes, half.top1, half.top5) == (24, alone.top1, alone.top5)
    assert half.bits_per_byte == pytest.approx(alone.bits_per_byte, rel=1e-6)
    assert learner.io2.loss == pytest.approx(other.io2.loss)
    assert torch.allclose(learner.io2.power, other.io2.power)
    other.errors.pass_by(8)
    assert torch.allclose(learner.errors.traces, other.errors.traces)
    for one, two in zip(weights_of(learner), weights_of(other), strict=True):
        assert torch.allclose(one, two, atol=1e-5)


def test_a_masked_target_has_no_direct_gradient(learner: Learner) -> None:
    """The bias of a token is moved by its probability, up where it is a learned target and down where it is not."""
    first = learner.network.token_bias.detach().clone()
    learner.learn(
        batch_of(
            [USER, 700, TURN, SOMA, 701, TURN],
            TargetWeights().of(np.array([USER, 700, TURN, SOMA, 701, TURN])),
        )
    )
    moved = learner.network.token_bias.detach() - first
    assert (moved[[700, 701, TURN]] > 0).all()  # a turn piece that ends a reply teaches yielding
    assert (moved[[USER, SOMA, STATE]] < 0).all()


def test_a_turn_piece_weighs_a_tenth(learner: Learner) -> None:
    ids = np.array([SOMA, 701, TURN])
    scored = learner.score(batch_of(ids))
    report = Learner.fresh(SMALL, SHA256).learn(batch_of(ids, TargetWeights().of(ids)))
    assert report.nats == pytest.approx(scored[1] + 0.1 * scored[2], rel=1e-5)


@pytest.mark.parametrize("cuts", [[1] * 35, [7, 28], [16, 16, 3], [35]])
def test_masks_are_the_same_over_any_block_boundaries(cuts: list[int]) -> None:
    """A dialogue of both sides with state between them, scored in blocks of any size: the same nats where it counts."""
    ids = np.array(
        [
            5000,
            USER,
            *TEXT[:9],
            TURN,
            STATE,
            900,
            901,
            TURN,
            SOMA,
            *TEXT[9:],
            TURN,
            DREAM,
            800,
            801,
            TURN,
            USER,
            710,
            711,
            712,
            713,
            TURN,
        ]
    )
    whole = TargetWeights().of(ids)
    assert [int(t) for t in ids[whole == np.float32(0.1)]] == [TURN]
    assert ids[whole == 1].tolist() == [5000, *TEXT, 710, 711, 712, 713]
    source, at, parts = TargetWeights(), 0, []
    learner, other = Learner.fresh(SMALL, SHA256), Learner.fresh(SMALL, SHA256)
    nats = []
    for cut in cuts:
        parts.append(source.of(ids[at : at + cut]))
        nats.append(learner.score(batch_of(ids[at : at + cut], parts[-1])))
        at += cut
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert np.allclose(np.concatenate(nats), other.score(batch_of(ids, whole)), atol=1e-4)


def test_evaluation_scores_every_token_and_changes_no_weight(learner: Learner) -> None:
    for _ in range(3):
        learner.learn(batch_of(TEXT))
    before, state = weights_of(learner), learner.state()
    ids = np.concatenate([TEXT, [STATE, UNKNOWN], np.arange(300)])
    nats = learner.score(batch_of(ids))
    assert nats.shape == (318,)
    assert (nats > 0).all()
    assert same(before, weights_of(learner))
    assert not np.allclose(learner.score(batch_of(ids)), nats)  # the second time there is another past
    learner.restore(state)
    assert np.array_equal(learner.score(batch_of(ids)), nats)
    assert learner.score(batch_of([])).shape == (0,)


def test_a_loss_is_the_score_of_the_token_before_it_is_learned(learner: Learner) -> None:
    scored = Learner.fresh(SMALL, SHA256).score(batch_of(TEXT)).sum()
    assert learner.learn(batch_of(TEXT)).nats == pytest.approx(scored, rel=1e-6)


def at_stride(learner: Learner, band: float) -> None:
    """Bring the controller to a target: mastered, with all power in a slow band."""
    learner.io2.loss, learner.io2.bits_per_byte = 0.0, 1 - band / 8
    learner.io2.power = torch.tensor([1e-12, 0.0], dtype=torch.float64)


def test_at_a_stride_every_token_is_perceived_and_some_are_observed(learner: Learner) -> None:
    at_stride(learner, 2)
    assert (learner.stride, learner.wanted_tokens) == (4, 64)
    ids = np.resize(TEXT, 62)
    scored = Learner.fresh(SMALL, SHA256).score(batch_of(ids))
    report = learner.learn(batch_of(ids))
    assert report.nats == pytest.approx(scored[::4].mean() * 62, rel=1e-5)
    assert (report.stride, report.tokens, report.source_bytes) == (4, 62, 186)
    assert report.byte_stride == pytest.approx(12)
    assert torch.allclose(learner.bank.traces, literal_bank(learner, list(ids)), atol=1e-12)
    assert learner.since_residual == 2  # the last observation was two tokens before the end
    assert learner._gaps(8, 4).tolist() == [2, 4]
    assert learner.since_residual == 4


def test_the_gain_of_decimation_acts_on_the_stride_alone() -> None:
    for gain, stride in [(0.0, 1), (1.0, 4), (2.0, 16), (9.0, 256)]:
        learner = Learner.fresh(replace(SMALL, decimation=gain), SHA256)
        at_stride(learner, 2)
        assert learner.stride == stride
        assert learner.learning_rate == pytest.approx(0.05 * 0.002, rel=1e-3)


def test_generation_is_perceived_and_never_learned(learner: Learner) -> None:
    for _ in range(3):
        learner.learn(batch_of(TEXT))
    before, state = weights_of(learner), learner.state()
    said = list(learner.generate(12, seed=3))
    assert len(said) <= 12
    assert not {UNKNOWN, STATE, USER, SOMA, DREAM, TURN} & set(said)
    assert same(before, weights_of(learner))
    exact, errors = learner.bank.traces.clone(), learner.errors.traces.clone()
    learner.restore(state)
    assert list(learner.generate(12, seed=3)) == said
    learner.restore(state)
    for token in [*said, TURN]:
        learner.bank.tick(token)
    learner.errors.pass_by(len(said) + 1)
    assert torch.allclose(learner.bank.traces, exact, atol=1e-12)
    assert torch.allclose(learner.errors.traces, errors, atol=1e-12)


def test_the_likeliest_tokens_are_those_of_exact_steps(learner: Learner) -> None:
    """Generation from the cached state says what one exact step after another would."""
    for _ in range(3):
        learner.learn(batch_of(TEXT))
    state = learner.state()
    said = list(learner.generate(6, temperature=0))
    learner.restore(state)
    for token in said:
        with torch.no_grad():
            logits = learner.network(
                learner.bank.presents(learner.network.dictionary, torch.zeros(1, dtype=torch.int64))
            )[0]
        logits[[UNKNOWN, STATE, USER, SOMA, DREAM]] = -math.inf
        assert int(logits.argmax()) == token
        learner.perceive([token])


def test_generation_stops_between_tokens_and_closes_with_a_turn(learner: Learner) -> None:
    speech = learner.generate(50)
    first = next(speech)
    for call in (
        lambda: learner.learn(batch_of(TEXT)),
        lambda: learner.perceive([1]),
        lambda: next(learner.generate(1)),
    ):
        with pytest.raises(UsageError, match="speaking"):
            call()
    speech.close()
    assert torch.allclose(learner.bank.traces, literal_bank(learner, [first, TURN]))
    learner.perceive([700])


def test_the_learned_turn_piece_ends_a_generation(learner: Learner) -> None:
    with torch.no_grad():
        learner.network.token_bias[TURN] = 100
        learner.network.token_bias[[UNKNOWN, SOMA]] = 200
    assert list(learner.generate(50)) == []
    assert torch.allclose(learner.bank.traces, literal_bank(learner, [TURN]))


def test_a_dream_begins_with_one_piece_and_its_feedback_is_counted(learner: Learner) -> None:
    learner.learn(batch_of(TEXT))
    learner.learn(batch_of(TEXT))
    before = weights_of(learner)
    dreamed = list(learner.dream(8, seed=1))
    assert same(before, weights_of(learner))
    assert torch.allclose(learner.bank.traces, literal_bank(learner, [*TEXT, *TEXT, DREAM, *dreamed, TURN]))
    counts = learner.counts
    assert (counts.dreams, counts.dream_tokens, counts.external_since_dream) == (1, len(dreamed), 0)
    assert counts.dream_ratio == pytest.approx(len(dreamed) / 32)
    assert counts.tokens == 32


def test_diagnostics_tell_of_bands_and_tokens(learner: Learner) -> None:
    learner.learn(batch_of([*TEXT, 7000]))
    told = diagnose(learner)
    assert [len(told.input_spectrum), len(told.residual_spectrum), len(told.weights_by_band)] == [2, 2, 2]
    assert sum(told.weights_by_band) == pytest.approx(1)
    assert told.active[0][0] == 7000
    assert told.active[0][2] == 0
    assert {token for token, _, _ in told.active} <= {*TEXT, 7000}
    chances = [chance for _, chance in told.likely]
    assert chances == sorted(chances, reverse=True)
    nats = [learner.score(batch_of([told.likely[0][0]]))[0]]
    assert math.exp(-nats[0]) == pytest.approx(chances[0], rel=1e-4)
