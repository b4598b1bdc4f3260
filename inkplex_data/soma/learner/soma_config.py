"""What a soma model is made with, and what its batches report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inkplex_data.errors import ConfigError
from inkplex_data.soma.learner.io2 import LEARNING_RATE
from inkplex_data.soma.learner.soma_network import WIDTH

SPECIES = "soma_v12_3_token_residual"
RUNTIME_VERSION = "v12.3.17"
MOST_BANDS, MOST_DEPTH, MOST_BATCH, MOST_HIDDEN = 32, 64, 4096, 32 * WIDTH


@dataclass(frozen=True)
class SomaConfig:
    """bands, depth, base and hidden make the model's shape; hidden is 256 a band for every fresh model.

    batch: gradient observations an update. decimation: gain on the stride that io2 chooses, 0 for dense training.
    gradclip: bound on the global norm of the gradient. seed: of the fresh weights. Raises ConfigError.
    """

    bands: int = 16
    depth: int = 4
    base: float = 2.0
    hidden: int | None = None
    batch: int = 128
    gradclip: float = 1.0
    learning_rate: float = LEARNING_RATE
    decimation: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        wanted: list[tuple[str, float, float, float]] = [
            ("bands", self.bands, 1, MOST_BANDS),
            ("depth", self.depth, 1, MOST_DEPTH),
            ("base", self.base, 1.01, 1024),
            ("hidden", self.width, 1, MOST_HIDDEN),
            ("batch", self.batch, 1, MOST_BATCH),
            ("gradclip", self.gradclip, 1e-6, 1e6),
            ("learning_rate", self.learning_rate, 0, 1),
            ("decimation", self.decimation, 0, 64),
            ("seed", self.seed, 0, 2**63 - 1),
        ]
        faults = [
            f"{name} is {value}, should be from {low:,} to {high:,}"
            for name, value, low, high in wanted
            if not low <= value <= high  # also true of what is not a number
        ]
        if faults:
            raise ConfigError("soma cannot be made so", faults=faults)

    @property
    def width(self) -> int:
        """Hidden coordinates."""
        return WIDTH * self.bands if self.hidden is None else self.hidden


@dataclass(frozen=True)
class BatchReport:
    """What a batch was like before soma learned from it.

    nats: of all its targets, each by its weight; estimated from the observed ones where the stride is above 1. source_bytes:
    of what is not masked. Both are 0, and bits_per_byte and the shares top1 and top5 not a number, where nothing was observed.
    tokens: masked ones too. stride: of this batch. compression: share of radial growth rejected. bytes_per_token: a moving average.
    """

    nats: float
    source_bytes: int
    bits_per_byte: float
    top1: float
    top5: float
    stride: int
    compression: float
    learning_rate: float
    tokens: int
    bytes_per_token: float

    @property
    def byte_stride(self) -> float:
        """About how many source bytes lie between two gradient observations."""
        return self.stride * self.bytes_per_token


def merged(reports: Sequence[BatchReport]) -> BatchReport:
    """One report of batches that follow one another. Shares are means by tokens; the rest is that of the last."""
    if len(reports) == 1:
        return reports[0]
    observed = [report for report in reports if not math.isnan(report.top1)]
    source_bytes = sum(report.source_bytes for report in reports)

    def mean(values: Sequence[float]) -> float:
        weighed = sum(value * report.tokens for value, report in zip(values, observed, strict=True))
        return weighed / sum(report.tokens for report in observed) if observed else math.nan

    nats = math.fsum(report.nats for report in reports)
    return replace(
        reports[-1],
        nats=nats,
        source_bytes=source_bytes,
        bits_per_byte=bits_per_byte(nats, source_bytes),
        top1=mean([report.top1 for report in observed]),
        top5=mean([report.top5 for report in observed]),
        tokens=sum(report.tokens for report in reports),
    )


def bits_per_byte(nats: float, source_bytes: float) -> float:
    """Not a number for no bytes."""
    return nats / source_bytes / math.log(2) if source_bytes > 0 else math.nan
