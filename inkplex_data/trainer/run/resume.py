"""Where a run goes on: rank 0 alone decides, and tells the others which revision of which checkpoint it is."""

from __future__ import annotations

import logging
from pathlib import Path

from inkplex_data.errors import CheckpointError, UsageError
from inkplex_data.plural import counted
from inkplex_data.trainer.run.checkpoint import Checkpoint, load_checkpoint
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.run_state import CheckpointFolder
from inkplex_data.trainer.run.sharding.shard_files import damage, shards_folder

log = logging.getLogger(__name__)


def resume_point(
    folder: CheckpointFolder, run: Path, ranks: Ranks, *, resume: bool, sharded: bool
) -> tuple[int, Checkpoint | None]:
    """(updates made, checkpoint) that every rank of a run goes on from, (0, None) for one that begins.

    sharded: tensors of a divided model stay where they are. Raises UsageError where the folder holds a run and `resume`
    is not given, CheckpointError where a rank has another folder, or all checkpoints are damaged.
    """
    damaged: list[int] = []
    while True:
        found = None
        with ranks.alike():
            if ranks.first:
                found = folder.load_latest(divided=sharded, but=damaged)
                if found is not None and not resume:
                    raise UsageError(
                        f"it holds a run that has made {counted(found[0], 'update')}",
                        where=str(run),
                        next_step="Give --resume to continue it, or another folder.",
                    )
        said = ranks.from_first(None if found is None else (found[0], str(found[1].revision_id)))
        checkpoint = None if found is None else found[1]
        with ranks.alike():
            if not ranks.first:
                checkpoint = _the_same(folder, run, said, sharded=sharded)
        if said is None:
            return 0, None
        assert checkpoint is not None
        faults = [fault for fault in ranks.of_all(_damage(folder, said, checkpoint, ranks, sharded)) if fault]
        if not faults:
            return said[0], checkpoint
        log.warning("passing over the checkpoint after update %d: %s", said[0], faults[0])
        damaged.append(said[0])


def _the_same(
    folder: CheckpointFolder, run: Path, said: tuple[int, str] | None, *, sharded: bool
) -> Checkpoint | None:
    """The checkpoint that rank 0 goes on from, as this rank finds it. Raises CheckpointError for another one."""
    next_step = "Give every process the same folder, or a copy of the one that rank 0 has."
    if said is None:
        if updates := folder.updates():
            raise CheckpointError(
                f"here is a checkpoint after update {updates[-1]}, and rank 0 has none: not the same folder",
                where=str(run),
                next_step=next_step,
            )
        return None
    update, revision = said
    if not folder.path(update).is_file():
        raise CheckpointError(
            f"rank 0 goes on from revision {revision} after update {update}, which is not here: not the same folder",
            where=str(run),
            next_step=next_step,
        )
    checkpoint = load_checkpoint(folder.path(update), divided=sharded)
    if checkpoint.revision_id != revision:
        raise CheckpointError(
            f"rank 0 goes on from revision {revision} after update {update}, here it is {checkpoint.revision_id}: not the "
            "same folder",
            where=str(run),
            next_step=next_step,
        )
    return checkpoint


def _damage(
    folder: CheckpointFolder, said: tuple[int, str], checkpoint: Checkpoint, ranks: Ranks, sharded: bool
) -> str | None:
    """What is wrong with this rank's share of the files of a divided model."""
    if checkpoint.shards is None or not sharded:
        return None
    where = shards_folder(folder.path(said[0]), said[1])
    return damage(where, checkpoint.shards, part=(ranks.rank, ranks.world_size))
