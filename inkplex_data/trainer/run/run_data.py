"""The stores of a run: opened as the run began with them, of one kind, and read in the order of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.loader import Loader, make_loader
from inkplex_data.loader.saved_position import reopen
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.scoring import scorable
from inkplex_data.trainer.model.speech_model import StoreIdentity, store_identity
from inkplex_data.trainer.run.checkpoint import Checkpoint
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.run_options import RunOptions
from inkplex_data.trainer.run.train_config import TrainRecipe


def open_stores(
    paths: Sequence[str | Path], saved: Checkpoint | None, run: Path, stack: ExitStack
) -> list[Store]:
    """The stores at `paths`, as a run's checkpoint pins them. Raises CheckpointError for others."""
    stores = [stack.enter_context(open_store(path)) for path in paths]
    if saved is None:
        return stores
    try:
        pins = list(saved.cursor["stores"])
    except (KeyError, TypeError) as error:
        raise CheckpointError("its data cursor names no store", where=str(run)) from error
    if len(pins) != len(stores):
        raise CheckpointError(
            f"the run reads {len(pins)} stores, and {len(stores)} are given",
            where=str(run),
            next_step="Give the stores that it began with, in the same order.",
        )
    # What a build has added since is no part of this run.
    return [stack.enter_context(reopen(store, pinned)) for store, pinned in zip(stores, pins, strict=True)]


def stores_identity(stores: Sequence[Store], recipe: TrainRecipe, options: RunOptions) -> StoreIdentity:
    """What a run shares with its stores. Raises ConfigError for stores of several codecs, tokenizers or states."""
    found = [
        store_identity(
            store,
            split=recipe.data.split,
            allow_untrained_codec=options.allow_untrained_codec,
            memory=recipe.reads_memory,
        )
        for store in stores
    ]
    for store, other in zip(stores, found, strict=True):
        faults = [
            f"{name}: {theirs} here, {ours} in {stores[0].root}"
            for name, ours in vars(found[0]).items()
            if (theirs := getattr(other, name)) != ours
        ]
        if faults:
            raise ConfigError(
                "stores of one run must be of one kind",
                where=store.root,
                faults=faults,
                next_step="Build them with one codec, one tokenizer and one reasoning model, or train on one alone.",
            )
    return found[0]


def run_loader(
    recipe: TrainRecipe, stores: Sequence[Store], ranks: Ranks, options: RunOptions, *, context_frames: int
) -> tuple[Loader, int]:
    """This rank's loader, and how many calls it leaves out because they have no memory."""
    data, able, left_out = recipe.data, None, 0
    if not recipe.trains_speech:
        # Calls without memory train nothing of it and would only thin out the update's gradient.
        able = {number: scorable(store, data.split, "own") for number, store in enumerate(stores)}
        left_out = sum(
            len(scorable(store, data.split, "none")) - len(able[number])
            for number, store in enumerate(stores)
        )
    loader = make_loader(
        stores,
        data.split,
        seed=recipe.seed,
        rank=ranks.rank,
        world_size=ranks.world_size,
        workers=options.workers,
        prefetch_bytes=options.prefetch_bytes,
        device=ranks.device,
        mix=data.mix,
        window_frames=data.longest_frames,
        memory="own" if recipe.reads_memory else "none",
        cut="seeded",
        context_frames=context_frames,
        call_ids=able if left_out else None,
        prefix=data.prefix,
        group=data.calls_per_update,
    )
    with_call = {
        call: [number for number, store in enumerate(stores) if call in store] or [0] for call in data.exclude
    }
    loader.leave_out((number, call) for call, numbers in with_call.items() for number in numbers)
    return loader, left_out


def on_cpu_first(options: RunOptions, ranks: Ranks) -> torch.device:
    """Where a model is loaded: a model that will be divided never lies whole on a GPU."""
    return torch.device("cpu") if options.shard else ranks.device
