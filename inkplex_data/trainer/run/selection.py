"""Which checkpoint of a run to keep.

Where memory alone trains, the one that says first pieces best without spoiling the agent's voice:

Least first-piece loss among those whose lower 95% bound of (baseline − checkpoint) is at least −0.01 nats,
for agent semantic and for agent acoustic audio, each alone (seeds/000, "Current sequence memory", section 11).
Where the speech model itself trains, its voice is meant to change: the least loss of the run's own objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VOICE_MARGIN_NATS = 0.01
"""Absolute nats by which the voice may get worse; not a share of the baseline."""


@dataclass(frozen=True)
class Check:
    """A periodic check of one checkpoint on the panel, losses in nats.

    first_piece: loss with the call's own memory, None where the panel has no first piece. semantic_lower,
    acoustic_lower: lower 95% bounds of (baseline − checkpoint) of the agent's audio, None where unknown. loss: of the
    run's objective, where the speech model itself trains.
    """

    update: int
    first_piece: float | None
    semantic_lower: float | None
    acoustic_lower: float | None
    loss: float | None = None

    def voice_kept(self, margin_nats: float = VOICE_MARGIN_NATS) -> bool:
        """Whether both bounds of the agent's voice pass. It does not say that voice loss is flat."""
        bounds = (self.semantic_lower, self.acoustic_lower)
        return all(bound is not None and bound >= -margin_nats for bound in bounds)


def select(checks: Sequence[Check], *, margin_nats: float = VOICE_MARGIN_NATS) -> Check | None:
    """The check to keep, the earlier of equals; None where none keeps the voice."""
    by_loss = [check for check in checks if check.loss is not None]
    if by_loss:
        return min(by_loss, key=lambda check: (check.loss, check.update))
    able = [check for check in checks if check.first_piece is not None and check.voice_kept(margin_nats)]
    return min(able, key=lambda check: (check.first_piece, check.update), default=None)
