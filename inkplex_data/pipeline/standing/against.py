"""A store against the corpus that it is said to be built from: everything is built once more, and compared.

It finds what no look at the store alone can: arrivals, kinds, bytes and words that fit each other and are not those of
the sources. States are not captured again (`audit.states_sample` does that), so no reasoning model is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from inkplex_data.config.recipe import Recipe
from inkplex_data.errors import InkplexError, UsageError
from inkplex_data.faults import Fault, short
from inkplex_data.pipeline.progress import Reporter
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.standing.copied_members import Row
from inkplex_data.store.format import offset_column
from inkplex_data.store.frame_streams import OnFrames, stored_in
from inkplex_data.store.reader import Store, open_store

NEAR_TIES: Final = 0.02
"""Share of codes that may differ: processors round otherwise, and a codebook's nearest entry with them."""
_OF_CALLS: Final = ("words", "versions", "evidence", "claims")
_PLACES: Final = frozenset(
    {"shard", "call_ix", "recording_ix", "frame_offset", *map(offset_column, (*_OF_CALLS, "tokens"))}
)
"""Where rows lie, which the other calls of a store decide."""
_PLANNED: Final = frozenset({"split", "family", "prefix_id", "wrong_memory_of"})
"""What a first build decides otherwise than one that adds to a store."""
_OF_STATES: Final = frozenset({"states", "state_width", "states_identity", "state_digests"})


def rebuild(
    store: Store,
    corpus: Path,
    folder: Path,
    *,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Store:
    """Build `corpus` into `folder` by the recipe of `store`, and open it.

    Raises UsageError where the store keeps no recipe, and what `build_store` raises.
    """
    configuration = store.description.get("configuration")
    if not isinstance(configuration, dict):
        raise UsageError("this store keeps no recipe, so nothing can be built by it", where=store.root)
    recipe = Recipe.model_validate(configuration)
    if recipe.memory is not None:
        memory = recipe.memory.model_copy(update={"capture": None})
        recipe = recipe.model_copy(update={"memory": memory})
    build_store(corpus, folder, recipe=recipe, workers=workers, reporter=reporter)
    return open_store(folder)


def against_faults(store: Store, anew: Store, calls: Collection[str] | None = None) -> Iterator[Fault]:
    """Where a store differs from what its sources give, `anew`: the first difference of each call, recording or prefix.

    `calls`: only these, and the recordings that they read.
    """
    skipped = _PLACES | (frozenset() if store.snapshot.number <= 1 else _PLANNED)
    stored = store.calls().collect()
    wanted = [call_id for call_id in stored["call_id"] if calls is None or call_id in calls]
    for call_id in wanted:
        if call_id not in anew:
            yield Fault("the corpus gives no such call", where=call_id)
            continue
        yield from _first(call_id, _call_faults, store, anew, skipped)
    if calls is None:
        for call_id in anew.call_ids:
            if call_id not in store:
                yield Fault("the corpus gives this call, and the store does not have it", where=call_id)
    read = stored.filter(pl.col("call_id").is_in(wanted))
    for recording_id in read["recording_id"].drop_nulls().unique(maintain_order=True):
        yield from _first(recording_id, _recording_faults, store, anew, skipped)
    for prefix_id in read["prefix_id"].drop_nulls().unique(maintain_order=True):
        yield from _first(prefix_id, _prefix_faults, store, anew, skipped)


def _first(item: str, faults: Any, store: Store, anew: Store, skipped: frozenset[str]) -> Iterator[Fault]:
    try:
        what = next(faults(item, store, anew, skipped), None)
    except InkplexError as error:
        what = error.what
    if what is not None:
        yield Fault(f"{what} from its sources", where=item)


def _call_faults(call_id: str, store: Store, anew: Store, skipped: frozenset[str]) -> Iterator[str]:
    ours, theirs = store.call(call_id), anew.call(call_id)
    yield from _row_faults(ours.row, theirs.row, skipped)
    for name in _OF_CALLS:
        yield from _table_faults(name, getattr(ours, name), getattr(theirs, name))
    yield from _stream_faults("calls", ours, theirs)


def _recording_faults(recording_id: str, store: Store, anew: Store, skipped: frozenset[str]) -> Iterator[str]:
    rows = [
        one.recordings().filter(pl.col("recording_id") == recording_id).collect().to_dicts()
        for one in (store, anew)
    ]
    if not all(rows):
        yield f"its recording is {'in the store' if rows[0] else 'not in the store'}, and not so"
        return
    own, other = rows[0][0], rows[1][0]
    yield from _row_faults(own, other, skipped | _OF_STATES)
    tables = [
        one.table("recordings", row["shard"], "tokens")
        .read(row["token_offset"], row["tokens"])
        .drop("recording_ix")
        for one, row in ((store, own), (anew, other))
    ]
    yield from _table_faults("tokens", *tables)


def _prefix_faults(prefix_id: str, store: Store, anew: Store, skipped: frozenset[str]) -> Iterator[str]:
    ours, theirs = store.prefix_by_id(prefix_id), anew.prefix_by_id(prefix_id)
    yield from _row_faults(ours.row, theirs.row, skipped)
    yield from _stream_faults("prefixes", ours, theirs)


def _row_faults(own: Row, other: Mapping[str, Any], skipped: Collection[str]) -> Iterator[str]:
    for name, value in own.items():
        if name not in skipped and name in other and value != other[name]:
            yield f"its {name} is {short(value)}, and {short(other[name])}"


def _table_faults(name: str, own: pl.DataFrame, other: pl.DataFrame) -> Iterator[str]:
    if own.height != other.height:
        yield f"it has {own.height} {name}, and {other.height}"
        return
    for column in own.columns:
        if column not in other.columns or own[column].equals(other[column]):
            continue
        pairs = zip(own[column].to_list(), other[column].to_list(), strict=True)
        row, (one, two) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
        yield f"row {row} of its {name} has the {column} {short(one)}, and {short(two)}"


def _stream_faults(kind: str, own: OnFrames, other: OnFrames) -> Iterator[str]:
    for stream in stored_in(kind):
        one, two = own.stream(stream.name), other.stream(stream.name)
        if one.shape != two.shape:
            yield f"its {stream.name} has shape {list(one.shape)}, and {list(two.shape)}"
            continue
        differing = np.argwhere(np.atleast_2d(one != two))
        if len(differing) > (NEAR_TIES * one.size if stream.name == "codes" else 0):
            frame = int(differing[:, -1].min())
            yield f"{len(differing)} values of its {stream.name} are others, the first in frame {frame}, than"
