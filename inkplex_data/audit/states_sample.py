"""States computed once more: a sample of tokens by the model that the recipe names, compared with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.audit.stored_requests import request_rows, stored_requests
from inkplex_data.audit.stored_states import FAR, row_distances
from inkplex_data.corpus.recordings.states_identity import StatesIdentity
from inkplex_data.errors import CausalityError, UsageError
from inkplex_data.faults import Fault
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.capture_states import capture_states
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from inkplex_data.plural import counted

if TYPE_CHECKING:
    from inkplex_data.memory.capture.inkling import Dtype
    from inkplex_data.store.reader import Store

LoadModel = Callable[["str", "Dtype", "str"], Inkling]


@dataclass
class StatesSample:
    """What computing a sample of states again found. `largest` is the largest difference of a row, in parts of its norm,
    at `where`, None where nothing was compared."""

    tokens: int = 0
    largest: float | None = None
    where: str = ""
    faults: list[Fault] = field(default_factory=list)

    def add(self, apart: NDArray[np.float64], tokens: NDArray[np.int64], recording_id: str) -> None:
        """Take in the differences [n, 3] of some tokens of a recording."""
        self.tokens += len(tokens)
        token, row = np.unravel_index(int(np.nan_to_num(apart, nan=np.inf).argmax()), apart.shape)
        largest = float(apart[token, row])
        if self.largest is None or not largest <= self.largest:
            self.largest = largest
            self.where = f"row {STATE_ROWS[row]} of token row {tokens[token]} of {recording_id}"

    def text(self) -> str:
        """One line for people."""
        if self.largest is None:
            return "no states were computed again"
        return (
            f"states of {counted(self.tokens, 'token')} computed again; the largest difference is "
            f"{self.largest:.2%} of a row's norm, in {self.where}"
        )


NEAR = 0.05
"""Of a row's norm: what float32 rounds otherwise on another kind of processor, after bfloat16."""


def audit_states_sample(
    store: Store, count: int, *, calls: Collection[str] | None = None, load: LoadModel | None = None
) -> StatesSample:
    """Compute the states of `count` captured tokens again, or of those that `calls` read, and compare them.

    The sample is the same each time. A token's context is computed with it, so a token late in a long recording costs
    as much as capturing all before it; tokens of media, whose input the store does not keep, are left out with their
    recordings. Differences up to `NEAR` of a row's norm pass for float32, up to half of it for bfloat16, in which the
    choice of experts depends on the processor.

    Raises UsageError where the recipe names no model or nothing was captured by one, ConfigError where the model is
    not to be had.
    """
    capture = store.setting("memory", "capture")
    rows = store.recordings().filter(pl.col("states") == "captured").collect()
    if calls is not None:
        read = [store.call_row(call_id)["recording_id"] for call_id in calls]
        rows = rows.filter(pl.col("recording_id").is_in(read))
    if not isinstance(capture, dict) or not rows.height:
        raise UsageError(
            "no states that are asked for were captured by a model that its recipe names",
            where=store.root,
            next_step="Leave out --states-sample: states that were imported are compared with their digests.",
        )
    model = (load or _load)(capture["model"], capture["dtype"], capture["device"])
    chosen = _chosen(rows, count)
    sample = StatesSample()
    for row in rows.iter_rows(named=True):
        wanted = chosen.get(row["recording_id"])
        if wanted is None:
            continue
        try:
            _compare(store, row, wanted, model, capture, sample=sample)
        except CausalityError as error:
            sample.faults.append(Fault(error.what, where=row["recording_id"]))
    return sample


def _load(spec: str, dtype: Dtype, device: str) -> Inkling:
    return load_inkling(spec, dtype=dtype, device=device)


def _chosen(rows: pl.DataFrame, count: int) -> dict[str, NDArray[np.int64]]:
    """Recording → token rows, ascending: `count` of all tokens, or all where there are not so many."""
    sizes = rows["tokens"].to_numpy()
    total = int(sizes.sum())
    picked = np.sort(np.random.default_rng(0).choice(total, min(count, total), replace=False))
    ends = np.cumsum(sizes)
    owner = np.searchsorted(ends, picked, side="right")
    ids = rows["recording_id"].to_list()
    return {
        ids[index]: picked[owner == index] - (ends[index] - sizes[index])
        for index in np.unique(owner).tolist()
    }


def _compare(
    store: Store,
    row: dict[str, Any],
    wanted: NDArray[np.int64],
    model: Inkling,
    capture: dict[str, Any],
    *,
    sample: StatesSample,
) -> None:
    """Take the differences of the token rows `wanted` of a recording into `sample`.

    Raises CausalityError for states of another model, and for the first token whose difference is too large, when all
    are taken in.
    """
    identity = row["states_identity"]
    made_by = None if identity is None else StatesIdentity.model_validate_json(identity)
    if made_by is not None and made_by.revision not in (None, model.identity.sha256):
        raise CausalityError(
            f"its states are of the model {made_by.model!r} ({str(made_by.revision)[:12]}), and the recipe's is "
            f"{model.identity.id!r} ({model.identity.sha256[:12]})"
        )
    offset, tokens = row["token_offset"], row["tokens"]
    table = store.table("recordings", row["shard"], "tokens").read(offset, tokens)
    if table["media"].is_not_null().any():
        return
    requests = stored_requests(table, row.get("requests"), recording_id=row["recording_id"])
    chunks = made_by and made_by.chunks
    rule = ChunkRule(*chunks) if chunks else ChunkRule.of(capture["chunk_tokens"] or model.chunk_rule())
    limit = NEAR if model.identity.dtype == "float32" else FAR
    bad: list[int] = []
    for first, states in _captured(capture_states(requests, model, chunk_tokens=rule), table):
        own = wanted[(wanted >= first) & (wanted < first + len(states))]
        if len(own):
            stored = np.concatenate(
                [store.states(row["shard"]).read_rows(offset + at, offset + at + 1) for at in own.tolist()]
            )
            apart = row_distances(stored, states[own - first])
            sample.add(apart, own, row["recording_id"])
            bad += own[~(apart <= limit).all(axis=1)].tolist()
        if first + len(states) > wanted[-1]:
            break
    if bad:
        raise CausalityError(f"token row {bad[0]} has other states than {model.identity.id} computes for it")


def _captured(
    chunks: Iterator[tuple[int, int, NDArray[np.uint16]]], tokens: pl.DataFrame
) -> Iterator[tuple[int, NDArray[np.uint16]]]:
    """Chunks with the token row that each begins at."""
    first_row = {number: first for number, first, _ in request_rows(tokens)}
    for number, position, states in chunks:
        first = first_row[number]
        yield first + position - int(tokens["position"][first]), states
