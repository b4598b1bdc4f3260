"""Saving and restoring the state of a run whose model is divided among ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from inkplex_data.checkpoint_sidecar import new_id
from inkplex_data.errors import ConfigError
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.run.checkpoint import Checkpoint
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.run_state import MODEL, OPTIMIZER, CheckpointFolder
from inkplex_data.trainer.run.sharding.parts import is_whole
from inkplex_data.trainer.run.sharding.shard_files import read_shards, shards_folder, write_shards

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_divided(
    folder: CheckpointFolder, update: int, checkpoint: Checkpoint, tensors: Mapping[str, Tensor], ranks: Ranks
) -> None:
    """Save `checkpoint` with `tensors`, of which those that are divided go to files of every rank; all ranks call it.

    Raises OSError for the disk's. A reader finds the checkpoint of before, or this one with all its files.
    """
    divided = {name: value for name, value in tensors.items() if not is_whole(value)}
    if not divided:  # Only writer and readers train.
        with ranks.alike():
            if ranks.first:
                folder.save(update, checkpoint)
        return
    revision = ranks.from_first(new_id())
    shards = shards_folder(folder.path(update), revision)
    with ranks.alike():
        shards.mkdir(parents=True, exist_ok=True)
    mine = write_shards(shards, divided, ranks.rank)
    files = ranks.of_all(mine)
    with ranks.alike():
        if ranks.first:
            checkpoint.tensors = {name: value for name, value in tensors.items() if name not in divided}
            checkpoint.shards = {name: about for part in files for name, about in part.items()}
            folder.save(update, checkpoint, revision)


@torch.no_grad()
def fill_divided(path: Path, checkpoint: Checkpoint, model: ConnectedLM) -> None:
    """Read a checkpoint's divided tensors into the model, and its moments into `checkpoint`; all ranks call it."""
    assert checkpoint.revision_id is not None
    divided = {
        name: value for name, value in model.named_parameters() if value.requires_grad and not is_whole(value)
    }
    into: dict[str, Tensor] = {MODEL + name: value.detach() for name, value in divided.items()}
    for name, value in divided.items():
        into |= {f"{OPTIMIZER}{key}.{name}": torch.zeros_like(value) for key in _MOMENTS}
    read_shards(shards_folder(path, checkpoint.revision_id), into)
    checkpoint.tensors |= into


def refuse_apart(run: Path, ranks: Ranks) -> None:
    """Raise ConfigError, naming the rank, where a rank's folder `run` is not the one that rank 0 writes into."""
    name = ranks.from_first(f".meeting-{new_id()}")
    with ranks.alike():
        if ranks.first:
            run.mkdir(parents=True, exist_ok=True)
            (run / name).touch()
    try:
        with ranks.alike():
            if not (run / name).exists():
                raise ConfigError(
                    f"rank {ranks.rank} does not see what rank 0 writes here: it is not the same folder",
                    where=str(run),
                    next_step="Give every process the same folder, on a file system that all of them share.",
                )
    finally:
        if ranks.first:
            (run / name).unlink(missing_ok=True)
