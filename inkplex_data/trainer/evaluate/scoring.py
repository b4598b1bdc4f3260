"""Scoring calls of a store: every call under no memory, its own, and that of another task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import polars as pl
import torch

from inkplex_data.errors import UsageError
from inkplex_data.loader import make_loader
from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.store.call_groups import TOLD, CallFilter, chosen
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.scores import MEMORIES, SCORES, score_rows
from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.run.objective import PARTS, ObjectiveWeights
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.teacher_forcing import idle, in_step, teacher_forced

EVERYTHING = ObjectiveWeights()
"""Weights above zero for every part: which parts count does not depend on what a run trains on."""


def scorable(store: Store, split: str, memory: str, calls: Collection[str] | None = None) -> list[str]:
    """Calls of a split, or of `calls` in it, that can be scored under `memory`, by name.

    Under `own` a call needs a recording with states, under `wrong` also a partner that has one.
    """
    table = store.calls().filter(pl.col("split") == split)
    rows = table.select("call_id", "recording_id", "wrong_memory_of").collect()
    if calls is not None:
        rows = rows.filter(pl.col("call_id").is_in(list(calls)))
    if memory == "none":
        return sorted(rows["call_id"])
    able = calls_with_states(store)
    rows = rows.filter(pl.col("call_id").is_in(able))
    if memory == "wrong":
        rows = rows.filter(pl.col("wrong_memory_of").is_in(able))
    return sorted(rows["call_id"])


def chosen_calls(
    store: Store, split: str, only: CallFilter, calls: Collection[str] | None = None
) -> list[str]:
    """Calls of a split, or of `calls` in it, that `only` lets through, by name. Raises UsageError where it lets none."""
    table = store.calls().filter(pl.col("split") == split).select("call_id", *TOLD).collect()
    found = chosen(table if calls is None else table.filter(pl.col("call_id").is_in(list(calls))), only)
    if not found.height:
        raise UsageError(
            f"no call of split {split!r} has "
            + " and ".join(f"{name} {value}" for name, value in only.items()),
            where=store.root,
        )
    return sorted(found["call_id"])


def calls_with_states(store: Store) -> list[str]:
    """All calls whose recording has states."""
    recordings = store.recordings().filter(pl.col("state_width") > 0).select("recording_id")
    return store.calls().join(recordings, on="recording_id", how="semi").collect()["call_id"].to_list()


def score_calls(
    model: ConnectedLM,
    store: Store,
    *,
    split: str,
    calls: Collection[str] | None = None,
    memories: Sequence[str] = MEMORIES,
    window_frames: int | None = None,
    prefix: str = OWN,
    ranks: Ranks | None = None,
    workers: int = 1,
    advance: Callable[[], None] | None = None,
) -> pl.DataFrame:
    """`scores.SCORES` of the calls of a split (all by default) under each of `memories`.

    `prefix`: see `loader.prefix_choice`. Long calls are cut into windows at fixed places, whose losses add up. Ranks share the calls; every rank
    gets the whole table. `advance` is called as each call of this rank is begun under a memory.
    """
    ranks = ranks or Ranks()
    rows = []
    for memory in memories:
        names = scorable(store, split, memory, calls)
        if not names:
            continue
        place = {name: index for index, name in enumerate(names)}
        sums = torch.zeros(len(names), len(PARTS), dtype=torch.float64)
        counts = torch.zeros(len(names), len(PARTS), dtype=torch.int64)
        loader = make_loader(
            store,
            split,
            seed=0,
            memory=memory,  # type: ignore[arg-type]
            call_ids=names,
            prefix=prefix,
            rank=ranks.rank,
            world_size=ranks.world_size,
            workers=workers,
            device=ranks.device,
            shuffle=False,
            cut="fixed",
            window_frames=window_frames,
            context_frames=model.lm.config.context,
        )
        with loader, torch.no_grad():
            begun: set[str] = set()
            for batch in in_step(loader, ranks) if model.sharded else loader:
                if batch is None:
                    idle(model, EVERYTHING)
                    continue
                if advance is not None and batch.call_id not in begun:
                    begun.add(batch.call_id)
                    advance()
                loss, _ = teacher_forced(model, batch, EVERYTHING)
                sums[place[batch.call_id]] += loss.part_sums.cpu()
                counts[place[batch.call_id]] += loss.part_counts.cpu()
        sums, counts = sums.to(ranks.device), counts.to(ranks.device)
        ranks.add_up(sums, counts)
        families = dict(
            store.calls().filter(pl.col("split") == split).select("call_id", "family").collect().iter_rows()
        )
        for name, loss_sums, targets in zip(names, sums.tolist(), counts.tolist(), strict=True):
            rows += score_rows(name, families[name], memory, loss_sums, targets)
    return pl.DataFrame(rows, schema=SCORES, orient="row")
