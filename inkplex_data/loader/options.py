"""`make_loader`: the options of a loader, checked together."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from inkplex_data.errors import UsageError
from inkplex_data.grid import PLAN_LIMIT
from inkplex_data.libraries import require
from inkplex_data.loader.loader import Loader
from inkplex_data.loader.order import Order
from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.loader.samples import Memory
from inkplex_data.loader.state_models import refuse_mixed
from inkplex_data.loader.windows import CONTEXT_FRAMES, Cut, Cutter
from inkplex_data.store.call_groups import CallFilter, check_filter
from inkplex_data.store.reader import Store, open_store
from inkplex_data.store.snapshot import listed_shard
from inkplex_data.text_scores import by_surprise, read_scores

if TYPE_CHECKING:
    import torch

StoreOrPath = Store | str | os.PathLike[str]

PREFETCH_BYTES: Final = 2**31
"""Two calls with a full memory of 40,000 tokens at the released width."""


def make_loader(
    store: StoreOrPath | Sequence[StoreOrPath],
    split: str,
    *,
    seed: int,
    rank: int = 0,
    world_size: int = 1,
    workers: int = 2,
    prefetch_bytes: int = PREFETCH_BYTES,
    device: str | torch.device | None = None,
    shuffle: bool = True,
    mix: Sequence[float] | None = None,
    window_frames: int | None = None,
    cut: Cut = "fixed",
    context_frames: int = CONTEXT_FRAMES,
    memory: Memory = "own",
    call_ids: Collection[str] | Mapping[int, Collection[str]] | None = None,
    only: CallFilter | None = None,
    prefix: str = OWN,
    order: Literal["surprise"] | None = None,
    scores: str | os.PathLike[str] | pl.DataFrame | None = None,
    group: int | None = None,
    plan_limit: int = PLAN_LIMIT,
) -> Loader:
    """A loader of the calls of `split`, in windows with their prefix and their memory.

    store: a store or its path or URL, or several. split: `train`, `validation` or `test`.
    seed: with the epoch, all that the order depends on. shuffle: else calls come as they are stored.
    rank, world_size: this process among those that train together.
    workers: threads that read ahead; 0 reads when asked. prefetch_bytes: how much they may have ahead.
    device: where tensors go; on a GPU one batch is copied ahead, on a stream of its own. The CPU by default.
    mix: weight of each store, the share of samples that come from it; see `sample_order.Mixture`.
    window_frames, cut, context_frames: see `windows.Cutter`; 3,000 less the prefix by default.
    memory: the call's `own`, its partner's (`wrong`, for evaluation), or `none`.
    call_ids: only these calls; of several stores, those of each by its number. only: those that have the values of these columns, such as `{"decisions": "speak"}`; see
    `call_groups.TOLD`. prefix: `own`, `random-voice` or the id of a stored prefix; see `prefix_choice.PrefixChoice`.
    order: `surprise` gives the calls from the most predictable to the most surprising, in every epoch and whatever `shuffle` says, by
    `scores`: the file that `inkplex-data soma score` writes, or its table; calls without a score come last.
    What is random depends on seed, epoch and sample. group: samples that all ranks take together, such as those of one update
    (`Loader.groups`). plan_limit: versions that a chunk of the plan may hold.

    Raises UsageError for options that make no sense together and for a split without calls, ConfigError for stores of two codecs or
    tokenizers, or memories of two reasoning models, StoreError or StoreCorruptError for a store that is not as its snapshot lists it, MissingLibraryError without torch.
    """
    require("torch", extra="train", needed_for="loading batches")
    many = [store] if isinstance(store, Store | str | os.PathLike) else list(store)
    faults = [
        text
        for bad, text in (
            (not many, "at least one store is needed"),
            (not 0 <= rank < world_size, f"rank {rank} is not one of {world_size}"),
            (workers < 0, f"workers must be 0 or more, got {workers}"),
            (prefetch_bytes < 1, f"prefetch_bytes must be 1 or more, got {prefetch_bytes}"),
            (
                len(many) > 1 and not isinstance(call_ids, Mapping | None),
                "call_ids of several stores must be given for each",
            ),
            (order not in (None, "surprise"), f"order is surprise or None, not {order!r}"),
            ((order is None) != (scores is None), "order surprise and scores belong together"),
            (group is not None and group < 1, f"group must be 1 or more, got {group}"),
            (plan_limit < 1, f"plan_limit must be 1 or more, got {plan_limit}"),
        )
        if bad
    ]
    if faults:
        raise UsageError("wrong loader options: " + "; ".join(faults))
    check_filter(only or {})
    cutter = Cutter(cut, window_frames, context_frames)
    if call_ids is not None and not isinstance(call_ids, Mapping):
        call_ids = {0: call_ids}
    ranked = None
    if scores is not None:
        shuffle = False
        ranked = tuple(by_surprise(scores if isinstance(scores, pl.DataFrame) else read_scores(scores)))
    ordered = Order(seed, split, shuffle, cutter, mix, call_ids, only, prefix, ranked)
    opened = [one if isinstance(one, Store) else open_store(one) for one in many]
    for one in opened:
        for ref in one.snapshot.shards:
            listed_shard(one.files, ref)
    refuse_mixed(opened, memory=memory != "none")
    return Loader(
        opened,
        ordered,
        own=[store for store, one in zip(opened, many, strict=True) if store is not one],
        memory=memory,
        place=(rank, world_size),
        group=group,
        workers=workers,
        prefetch_bytes=prefetch_bytes,
        device=device,
        plan_limit=plan_limit,
    )
