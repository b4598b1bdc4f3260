"""Means over the batches of a stretch of training, in the source domain (seeds/001, section 8)."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inkplex_data.soma.learner.soma_config import BatchReport


@dataclass(frozen=True)
class Figures:
    """bits_per_byte, top1 and top5 are None where all was masked. source_bytes: of all tokens, masked ones too.
    stride, compression and learning_rate are those of the last batch."""

    bits_per_byte: float | None
    top1: float | None
    top5: float | None
    tokens: int
    source_bytes: int
    bytes_per_s: float
    stride: int
    byte_stride: float
    compression: float
    learning_rate: float

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values: no number that JSON lacks."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


class RunningFigures:
    """Sums since it was made. Shares are weighed by tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self._begun_s = time.monotonic()
        self._read_bytes = self._scored_bytes = self._scored_tokens = 0
        self._nats = self._top1 = self._top5 = 0.0
        self._last: BatchReport | None = None

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._begun_s

    def add(self, report: BatchReport, read_bytes: int) -> None:
        """Count a batch. `read_bytes`: source bytes of all its tokens."""
        self.tokens += report.tokens
        self._read_bytes += read_bytes
        self._last = report
        if math.isfinite(report.nats) and report.source_bytes:
            self._nats += report.nats
            self._scored_bytes += report.source_bytes
            self._scored_tokens += report.tokens
            self._top1 += report.top1 * report.tokens
            self._top5 += report.top5 * report.tokens

    def figures(self) -> Figures:
        """What it comes to."""
        last, scored = self._last, self._scored_tokens
        return Figures(
            bits_per_byte=self._nats / math.log(2) / self._scored_bytes if scored else None,
            top1=self._top1 / scored if scored else None,
            top5=self._top5 / scored if scored else None,
            tokens=self.tokens,
            source_bytes=self._read_bytes,
            bytes_per_s=self._read_bytes / max(self.seconds, 1e-9),
            stride=last.stride if last else 0,
            byte_stride=last.byte_stride if last else 0.0,
            compression=last.compression if last else 0.0,
            learning_rate=last.learning_rate if last else 0.0,
        )
