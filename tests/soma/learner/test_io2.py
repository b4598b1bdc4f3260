"""The controller's bounds, its directions, and its two limits: chance and mastery."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from inkplex_data.soma.learner.io2 import (
    LEAST_PLASTICITY,
    Io2,
    group_rates,
    learning_need,
    relaxation,
    spectral_concentration,
    spectral_energy,
    stride_of,
)

GRID = [i / 8 for i in range(9)]


def controller(loss: float, power: list[float], bits: float) -> Io2:
    made = Io2.fresh(8192, len(power), 2.0)
    made.loss, made.bits_per_byte, made.power = loss, bits, torch.tensor(power, dtype=torch.float64)
    return made


def test_need_is_bounded_and_falls_with_none_of_its_three_arguments() -> None:
    for u, e, c in itertools.product(GRID, repeat=3):
        need = learning_need(u, e, c)
        assert 0 <= need <= 1
        step = 1 / 8
        assert need <= learning_need(min(1, u + step), e, c) + 1e-12
        assert need <= learning_need(u, min(1, e + step), c) + 1e-12
        assert need <= learning_need(u, e, min(1, c + step)) + 1e-12


@pytest.mark.parametrize("concentrated", [0.0, 0.4, 1.0])
def test_at_chance_all_is_plastic_and_at_mastery_the_least(concentrated: float) -> None:
    assert [learning_need(1, e, concentrated) for e in GRID] == [1] * 9
    assert learning_need(0, 0, concentrated) == 0
    fresh = Io2.fresh(8192, 16, 2.0)
    assert (fresh.plasticity, fresh.band, fresh.group_rates()) == (1.0, 0.0, (1.0, 1.0, 1.0))
    master = controller(0.0, [0.0] * 16, 0.0)
    assert master.plasticity == pytest.approx(LEAST_PLASTICITY)
    assert stride_of(master.band, 1.0, 2.0) == 256
    assert master.group_rates() == pytest.approx((0.1, 0.1, 1.0))


def test_energy_and_concentration() -> None:
    assert spectral_energy(torch.tensor([0.09, 0.16])) == pytest.approx(0.5)
    assert spectral_energy(torch.tensor([9.0, 16.0])) == 1
    assert spectral_concentration(torch.tensor([0.0, 2.0, 0.0])) == pytest.approx(1)
    assert spectral_concentration(torch.ones(4)) == pytest.approx(0, abs=1e-6)
    assert spectral_concentration(torch.zeros(4)) == spectral_concentration(torch.ones(1)) == 0


def test_relaxation_begins_below_one_bit_a_byte_and_rises_linearly() -> None:
    assert [relaxation(bits) for bits in (8, 1.001, 1, 0.75, 0.25, 0)] == [0, 0, 0, 0.25, 0.75, 1]


def test_the_stride_follows_the_dominant_band_and_relaxation() -> None:
    fast, slow = [0.01, 0, 0, 0], [0, 0, 0, 0.01]
    assert controller(4.5, fast, 2.0).band == 0
    assert 0 < controller(4.5, slow, 2.0).band < 3
    bands = [controller(1.0, fast, bits).band for bits in (1.0, 0.8, 0.5, 0.1)]
    assert bands == sorted(bands)
    assert bands[0] == 0
    assert bands[-1] < 8


@pytest.mark.parametrize(
    ("band", "gain", "base", "stride"),
    [
        (3, 1, 2.0, 8),
        (3, 0, 2.0, 1),
        (3, 0.5, 2.0, 3),
        (3, 2, 2.0, 64),
        (3, 64, 2.0, 256),
        (8, 1, 2.0, 256),
        (2, 1, 4.0, 16),
    ],
)
def test_gain_acts_on_the_band(band: float, gain: float, base: float, stride: int) -> None:
    assert stride_of(band, gain, base) == stride


def test_saturation_protects_the_early_groups_first_and_never_the_readout() -> None:
    rates = [group_rates(s) for s in GRID]
    for earlier, later in itertools.pairwise(rates):
        assert all(a >= b for a, b in zip(earlier, later, strict=True))
    assert all(early <= middle <= readout == 1 for early, middle, readout in rates)
    assert group_rates(0.5) == pytest.approx((0.1, 1, 1))


def test_a_batch_moves_the_controller_a_little_and_one_without_bytes_leaves_the_bits() -> None:
    io2 = Io2.fresh(8192, 2, 2.0)
    io2.observe(0.0, torch.tensor([1.0, 0.0], dtype=torch.float64), math.nan)
    assert io2.loss == pytest.approx(0.9 * math.log(8192))
    assert io2.power.tolist() == pytest.approx([0.1, 0])
    assert io2.bits_per_byte == 13
    io2.observe(0.0, io2.power, 3.0)
    assert io2.bits_per_byte == pytest.approx(12)
