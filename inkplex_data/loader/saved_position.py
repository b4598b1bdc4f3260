"""A loader's saved position, and what it pins: stores, by the digests of their shards.

A run reads what it began with: a build that adds shards changes nothing for it. A pinned shard that is gone, or was built anew, would
change the order or the content of samples, so a store that lacks it is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inkplex_data.errors import CheckpointError
from inkplex_data.store.describe import description_of
from inkplex_data.store.reader import Store
from inkplex_data.store.snapshot import Snapshot, read_snapshot


def pin(store: Store) -> dict[str, Any]:
    """What a saved state keeps of a store: snapshot number, digest, and the SHA-256 of every shard.json."""
    return {
        "snapshot": store.snapshot.number,
        "digest": digest(store.snapshot),
        "shards": {ref.key: ref.sha256 for ref in store.snapshot.shards},
    }


def digest(snapshot: Snapshot) -> str:
    """SHA-256 of what a snapshot lists: kinds, numbers and digests of its shards, in their order."""
    listed = [[ref.kind, ref.shard, ref.sha256] for ref in snapshot.shards]
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def reopen(store: Store, pinned: Mapping[str, Any]) -> Store:
    """`store` at the snapshot that `pinned` describes; itself where that is what it is at.

    Published shards never change and later snapshots list them all, so the newest snapshot has them.
    Raises CheckpointError naming what differs, StoreError where the store is gone.
    """
    if digest(store.snapshot) == pinned["digest"]:
        return store
    newest = read_snapshot(store.files)
    found = {ref.key: ref for ref in newest.shards}
    faults = [
        f"shard {key} is gone" if key not in found else f"shard {key} has been rebuilt since"
        for key, sha256 in pinned["shards"].items()
        if key not in found or found[key].sha256 != sha256
    ]
    if not faults:
        shards = tuple(found[key] for key in pinned["shards"])
        snapshot = replace(newest, number=pinned["snapshot"], shards=shards)
        if digest(snapshot) == pinned["digest"]:
            return Store(store.files, description_of(store.files, newest), snapshot)
        faults = ["the saved state's own list of shards does not have the digest that it names"]
    raise CheckpointError(
        f"this is not the store that the saved state was reading, snapshot {pinned['snapshot']}: "
        + "; ".join(faults[:8]),
        where=store.root,
        next_step="Resume on the store that the run began with, or start a new run on this one.",
    )


def state_digest(pins: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over the digests of all stores of a loader."""
    return hashlib.sha256("".join(pinned["digest"] for pinned in pins).encode()).hexdigest()


def parse_state(
    state: Mapping[str, Any], order: Mapping[str, Any], *, stores: int
) -> tuple[int, int, list[Mapping[str, Any]]]:
    """(epoch, samples consumed, pins) of a saved state, for a loader of `stores` stores in that `order`.

    Raises CheckpointError for something that is not a state, and for one of another order, naming what differs.
    """
    try:
        epoch, consumed, pins, saved = (
            state[key] for key in ("epoch", "samples_consumed", "stores", "order")
        )
        fits = state["store_digest"] == state_digest(pins) and all(
            isinstance(pinned["snapshot"], int) and isinstance(pinned["shards"], dict) for pinned in pins
        )
        fits = fits and isinstance(saved, dict) and all(type(n) is int and n >= 0 for n in (epoch, consumed))
    except (KeyError, TypeError):
        fits = False
    if not fits:
        raise CheckpointError(
            "this is not the saved state of a loader, or it was changed",
            next_step="Resume from another checkpoint.",
        )
    faults = [
        f"{name} was {saved.get(name)!r:.80}, is {order.get(name)!r:.80}"
        for name in sorted({*saved, *order})
        if saved.get(name) != order.get(name)
    ]
    if len(pins) != stores:
        faults.append(f"it read {len(pins)} stores, this one {stores}")
    if faults:
        raise CheckpointError(
            "the saved state belongs to a loader with another order of samples: " + "; ".join(faults),
            next_step="Resume with the options that the run began with; ranks, workers and memory may differ.",
        )
    return epoch, consumed, list(pins)
