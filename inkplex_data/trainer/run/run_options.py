"""How a run is made, and where it stands at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inkplex_data.loader.options import PREFETCH_BYTES
from inkplex_data.trainer.run.run_state import CHECKPOINTS, CheckpointFolder
from inkplex_data.trainer.run.selection import Check


@dataclass(frozen=True)
class RunOptions:
    """How a run runs, which changes none of its losses on one machine. device: `auto` takes a GPU where there
    is one. stop_after: updates after which it stops, as if interrupted, with a checkpoint. begin_from: a run or
    checkpoint whose trained weights a new run begins with; what goes on from a checkpoint of its own leaves it aside.
    shard: divide weights, gradients and optimiser among the ranks. compile: let torch compile each block; losses move by
    rounding. log: where metrics go beside the run's folder, of `logs.trackers.TRACKERS`. patience_s: how long ranks wait
    for one before it is named."""

    device: str = "auto"
    workers: int = 2
    prefetch_bytes: int = PREFETCH_BYTES
    allow_untrained_codec: bool = False
    resume: bool = False
    tensorboard: bool = True
    stop_after: int | None = None
    begin_from: Path | None = None
    shard: bool = False
    compile: bool = False
    log: tuple[str, ...] = ()
    patience_s: float = 300.0


@dataclass(frozen=True)
class RunSummary:
    """Where a run stands. selected: the check of the chosen checkpoint, None where none keeps the voice."""

    run: Path
    update: int
    updates: int
    selected: Check | None
    rank: int = 0

    @property
    def checkpoint(self) -> Path:
        """The selected checkpoint, or the newest one."""
        folder = CheckpointFolder(self.run / CHECKPOINTS)
        return folder.path(self.selected.update if self.selected else self.update)
