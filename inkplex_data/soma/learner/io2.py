"""The controller: from how soma errs to how fast it learns, how much of it learns, and how densely (seeds/001, sections 6 and 7).

The specification names the quantities and leaves their formulas open, except those of relaxation and stride. With

    u   loss / log(vocabulary), held within 0 … 1: 1 at chance, 0 at mastery
    e   energy: the norm of the residual spectrum in units of the mean dictionary norm, held within 0 … 1
    c   concentration: 1 - entropy of the bands' shares of the power / log(bands): 1 where one band has all of it
    d   dominant band: the one with the most power

this module takes

    need       1 - (1 - u) * (1 - e * (1 + c) / 2)     1 at chance, 0 where loss and energy are 0; rises with each of the three
    plasticity 0.05 + 0.95 * need                      scales the base learning rate
    saturation 1 - need                                protects, half by half, the early groups and then the residual blocks
    band       saturation * (d + relaxation * (8 - d)) for base 2, whose 8 is log_base(256): at mastery the stride is the cap

An energetic and concentrated residual is structure that can still be learned; a faint or spread one is noise. Loss, power
and bits a byte are moving averages over batches, so that one batch does not move the controller far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

LEARNING_RATE: Final = 0.002
MOST_STRIDE: Final = 256
LEAST_PLASTICITY: Final = 0.05
_WEIGHT: Final = 0.1
"""Of a new batch in a moving average."""
_PROTECTED: Final = 0.1
"""What a wholly protected group keeps of the learning rate."""


def spectral_energy(power: Tensor) -> float:
    """Norm over all bands, at most 1. power: float64 [bands]."""
    return min(1.0, math.sqrt(float(power.sum())))


def spectral_concentration(power: Tensor) -> float:
    """1 where one band has all the power, 0 where all have as much, or none has any."""
    total = float(power.sum())
    if total <= 0 or len(power) < 2:
        return 0.0
    share = power / total
    return min(1.0, max(0.0, 1 - float(torch.special.entr(share).sum()) / math.log(len(power))))


def learning_need(loss_share: float, energy: float, concentration: float) -> float:
    """From 0, mastery, to 1, chance. All arguments within 0 … 1; it falls with none of them."""
    return 1 - (1 - loss_share) * (1 - energy * (1 + concentration) / 2)


def relaxation(bits_per_byte: float) -> float:
    """0 at one bit a source byte and above, 1 at none."""
    return min(1.0, max(0.0, 1 - bits_per_byte))


def group_rates(saturation: float) -> tuple[float, float, float]:
    """What dictionary and input, residual blocks, and readout take of the learning rate.

    As saturation goes from 0 to 1 the first group falls to a tenth in the first half and the second in the second half;
    the readout stays wholly plastic.
    """
    early, middle = min(1.0, 2 * saturation), max(0.0, 2 * saturation - 1)
    return 1 - (1 - _PROTECTED) * early, 1 - (1 - _PROTECTED) * middle, 1.0


def stride_of(band: float, gain: float, base: float) -> int:
    """Tokens from one gradient observation to the next, 1 to 256."""
    effective = min(max(gain * band, 0.0), math.log(MOST_STRIDE, base))
    return min(MOST_STRIDE, round(base**effective))


@dataclass
class Io2:
    """The controller's state: moving averages of nats a token, bits a source byte, and power by band, float64 [bands]."""

    base: float
    chance: float
    loss: float
    bits_per_byte: float
    power: Tensor

    @classmethod
    def fresh(cls, vocabulary: int, bands: int, base: float) -> Io2:
        """Before anything is learned: at chance."""
        chance = math.log(vocabulary)
        return cls(base, chance, chance, math.log2(vocabulary), torch.zeros(bands, dtype=torch.float64))

    def observe(self, loss: float, power: Tensor, bits_per_byte: float) -> None:
        """Take in a batch: nats a token, power by band and bits a source byte (not finite where it has no bytes)."""
        self.loss += _WEIGHT * (loss - self.loss)
        self.power = self.power + _WEIGHT * (power - self.power)
        if math.isfinite(bits_per_byte):
            self.bits_per_byte += _WEIGHT * (bits_per_byte - self.bits_per_byte)

    @property
    def need(self) -> float:
        share = min(1.0, max(0.0, self.loss / self.chance))
        return learning_need(share, self.energy, spectral_concentration(self.power))

    @property
    def energy(self) -> float:
        """Of the residual, 0 to 1."""
        return spectral_energy(self.power)

    @property
    def plasticity(self) -> float:
        """The share of the base learning rate that is used, 0.05 to 1."""
        return LEAST_PLASTICITY + (1 - LEAST_PLASTICITY) * self.need

    @property
    def dominant_band(self) -> int:
        return int(self.power.argmax())

    @property
    def band(self) -> float:
        """The raw decimation target, 0 to log_base(256)."""
        highest = math.log(MOST_STRIDE, self.base)
        dominant = min(float(self.dominant_band), highest)
        return (1 - self.need) * (dominant + relaxation(self.bits_per_byte) * (highest - dominant))

    def group_rates(self) -> tuple[float, float, float]:
        """See the function of this name."""
        return group_rates(1 - self.need)
