"""The radial plasticity compressor: a row may turn as it likes, and grows the less the longer it is (seeds/001, section 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

INTERVAL = 16
"""Updates from one compression to the next."""

_CEILING = 4 * 0.1


def ceiling(matrix: Tensor) -> float:
    """Longest row of a map of this many inputs."""
    return _CEILING * math.sqrt(matrix.shape[1])


def row_norms(matrix: Tensor) -> Tensor:
    """[rows, 1]."""
    return torch.linalg.vector_norm(matrix, dim=1, keepdim=True)


class RadialCompressor:
    """Compares rows with what they were an interval ago. norms: of every matrix's rows then, float32 [rows, 1].

    compression: share of the growth that the last interval proposed which was rejected, 0 to 1.
    """

    def __init__(self, matrices: Sequence[Tensor]) -> None:
        self._matrices = list(matrices)
        self.norms = [row_norms(matrix.detach()) for matrix in self._matrices]
        self.updates = 0
        self.compression = 0.0

    @torch.no_grad()
    def after_update(self) -> None:
        """Count an update, and compress where an interval is over."""
        self.updates += 1
        if self.updates % INTERVAL:
            return
        proposed_growth = rejected_growth = 0.0
        for number, matrix in enumerate(self._matrices):
            proposed, before = row_norms(matrix), self.norms[number]
            growth = (proposed - before).clamp_min(0)
            target = target_norms(before, proposed, ceiling(matrix))
            matrix.mul_(target / proposed.clamp_min(torch.finfo(matrix.dtype).tiny))
            proposed_growth += float(growth.sum(dtype=torch.float64))
            rejected_growth += float((proposed - target).clamp_min(0).sum(dtype=torch.float64))
            self.norms[number] = target
        self.compression = rejected_growth / proposed_growth if proposed_growth else 0.0


def target_norms(before: Tensor, proposed: Tensor, highest: float) -> Tensor:
    """Norms that rows get: a shorter one as proposed, of growth the share 1 - (before / highest)^4, and none above."""
    gain = (1 - (before / highest) ** 4).clamp(0, 1)
    grown = before + gain * (proposed - before).clamp_min(0)
    return torch.minimum(torch.where(proposed > before, grown, proposed), torch.tensor(highest))
