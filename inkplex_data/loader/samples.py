"""The samples of one store: every window of every call of a split, numbered without listing them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl

from inkplex_data.errors import UsageError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.loader.prefix_choice import OWN, PrefixChoice
from inkplex_data.loader.sample_order import Permutation
from inkplex_data.loader.windows import Cutter
from inkplex_data.store.call_groups import CallFilter, chosen
from inkplex_data.store.frame_streams import batch_tensors
from inkplex_data.store.reader import Store

Memory = Literal["own", "wrong", "none"]
"""Whose memory samples carry: the call's own, that of its partner for wrong memory, or nobody's."""

_COLUMNS: Final = [
    "call_id", "shard", "frame_offset", "frames", "version_offset", "versions", "recording_id",
    "recording_starts_at_us", "prefix_id", "wrong_memory_of", "split", "family", "response_start_frame",
]  # fmt: skip
_CUT: Final = ["call_id", "frames", "prefix_id", "split"]
_SHOWN: Final = 5
VERSION_BYTES: Final = 15
TOKEN_BYTES: Final = 32
"""Of one token beside its states: kind, offset, and room for six pieces, where two are usual."""


@dataclass(frozen=True)
class Sample:
    """One window of a call: frames [first, stop) of the call, behind `prefix_frames` frames."""

    store: int
    row: dict[str, Any]
    first: int
    stop: int
    prefix_frames: int
    bytes_: int
    """Room that its batch takes, from the index alone: at least what it will be, as good as always."""


class SampleIndex:
    """Every sample of one split of a store at its snapshot."""

    def __init__(
        self,
        store: Store,
        number: int,
        split: str,
        cutter: Cutter,
        *,
        memory: Memory = "own",
        call_ids: Collection[str] | None = None,
        only: CallFilter | None = None,
        prefix: str = OWN,
        ranked: Sequence[str] | None = None,
    ) -> None:
        """`number` is the store's place among several. `call_ids` and `only` restrict the calls, all by default.
        `prefix`: see `PrefixChoice`. `ranked`: ids of calls that come first, in this order.

        Raises UsageError if nothing is left, for a call that is not in the split, for a prefix that is not there or
        leaves no room, and for wrong memory where calls with a recording have no partner.
        """
        if memory not in get_args(Memory):
            raise UsageError(f"memory is {', '.join(get_args(Memory))}, not {memory!r}")
        self.store, self.number, self.cutter, self.memory = store, number, cutter, memory
        calls = store.catalog.frame("calls", [*_COLUMNS, *(only or ())]).sort("shard", "frame_offset")
        own = calls.filter(pl.col("split") == split)
        if not own.height:
            raise UsageError(
                f"no call of split {split!r}",
                where=store.root,
                next_step=f"It has the splits {', '.join(sorted(set(calls['split']))) or 'of no call'}.",
            )
        if call_ids is not None:
            if lacking := set(call_ids) - set(own["call_id"]):
                raise UsageError(
                    f"{len(lacking)} calls are not in split {split!r}: {_some(sorted(lacking))}",
                    where=store.root,
                )
            own = own.filter(pl.col("call_id").is_in(list(call_ids)))
        if only:
            own = chosen(own, only)
        if not own.height:
            raise UsageError("no call was asked for", where=store.root)
        if ranked is not None:
            rank = pl.DataFrame({"call_id": ranked}, schema={"call_id": pl.String()}).with_row_index("rank")
            own = own.join(rank, on="call_id", how="left", maintain_order="left")
            own = own.sort("rank", nulls_last=True, maintain_order=True).drop("rank")
        self._frame_bytes = sum(tensor.frame_bytes for tensor in batch_tensors())
        self.prefixes = PrefixChoice(store, prefix)
        self._calls = own.with_columns(self._source_recording(own, calls))
        self._check_partners()
        self._ends = np.cumsum(
            [self._windows(row) for row in own.select(*_CUT).iter_rows(named=True)], dtype=np.int64
        )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def sample(self, lap: int, index: int, *, seed: int, shuffle: bool) -> Sample:
        """Sample `index` of lap `lap` through the store: a pure function of its arguments."""
        if shuffle:
            index = Permutation(len(self), seed, self.number, lap)[index]
        at = int(np.searchsorted(self._ends, index, side="right"))
        row = self._calls.row(at, named=True)
        window = index - (int(self._ends[at - 1]) if at else 0)
        longest = self.prefixes.longest(row)
        first, stop = self.cutter.window(window, row["frames"], longest, seed, self.number, lap, at)
        row["prefix_id"] = self.prefixes.of(row, seed, self.number, lap, index)
        prefix_frames = self.prefixes.frames(row["prefix_id"])
        return Sample(
            self.number, row, first, stop, prefix_frames, self._bytes(row, stop - first + prefix_frames)
        )

    def _windows(self, row: dict[str, Any]) -> int:
        longest = self.prefixes.longest(row)
        try:
            return self.cutter.count(row["frames"], longest)
        except UsageError as error:
            raise UsageError(
                error.what, where=f"{self.store.root}, call {row['call_id']!r}", next_step=error.next_step
            ) from error

    def _source_recording(self, own: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
        """The recording whose memory each call's samples carry."""
        if self.memory == "own":
            return own["recording_id"].alias("memory_of")
        if self.memory == "none":
            return pl.Series("memory_of", [None] * own.height, pl.String)
        of_call = calls.select(
            pl.col("call_id").alias("wrong_memory_of"), pl.col("recording_id").alias("memory_of")
        )
        return own.join(of_call, on="wrong_memory_of", how="left", maintain_order="left")["memory_of"]

    def _check_partners(self) -> None:
        if self.memory == "wrong":
            alone = self._calls.filter(pl.col("recording_id").is_not_null() & pl.col("memory_of").is_null())
            if alone.height:
                raise UsageError(
                    f"{alone.height} calls have a recording and no partner for wrong memory: "
                    f"{_some(alone['call_id'].to_list())}",
                    where=self.store.root,
                    next_step="Partners are chosen for validation and test calls; evaluate one of these splits.",
                )

    def _bytes(self, row: dict[str, Any], frames: int) -> int:
        total = frames * self._frame_bytes
        if row["memory_of"] is not None:
            recording = self.store.recording_row(row["memory_of"])
            tokens, width = recording["tokens"], recording["state_width"]
            total += tokens * (len(STATE_ROWS) * 2 * width + TOKEN_BYTES) + row["versions"] * VERSION_BYTES
        return total


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (" …" if len(names) > _SHOWN else "")
