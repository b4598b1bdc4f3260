"""What a window sees of a recording, from the store's tables: plain arrays, straight from Arrow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from inkplex_data.errors import StoreCorruptError
from inkplex_data.grid import KINDS
from inkplex_data.loader.samples import Sample
from inkplex_data.loader.windows import VersionColumns, window_versions
from inkplex_data.store.arrays.states_read import StatesReader
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store

_DTYPES = {
    "row": "int32",
    "start": "int32",
    "end": "int32",
    "recency": "uint8",
    "age": "uint8",
    "whole": "bool",
}


@dataclass(frozen=True)
class WindowMemory:
    """The part of a recording that a window sees. `row` of `versions` counts from `first_token`."""

    versions: VersionColumns
    kind: NDArray[np.uint8]
    piece_offsets: NDArray[np.int64]
    piece_ids: NDArray[np.int32]
    first_token: int
    states: StatesReader | None
    state_row: int
    """Row of the recording's first token in `states`."""

    @property
    def tokens(self) -> int:
        return len(self.kind)

    @classmethod
    def nothing(cls) -> WindowMemory:
        return cls(
            VersionColumns.empty(),
            np.empty(0, np.uint8),
            np.zeros(1, np.int64),
            np.empty(0, np.int32),
            0,
            None,
            0,
        )

    @classmethod
    def of(cls, store: Store, call: Call, sample: Sample) -> WindowMemory:
        """Raises StoreCorruptError for versions of tokens that the recording does not have."""
        if call.recording_id is None:
            return cls.nothing()
        recording = store.recording_row(call.recording_id)
        if not recording["state_width"]:
            return cls.nothing()
        versions = window_versions(_versions(store, call), sample.first, sample.stop, sample.prefix_frames)
        first, stop = (int(versions.row.min()), int(versions.row.max()) + 1) if len(versions) else (0, 0)
        if first < 0 or stop > recording["tokens"]:
            raise StoreCorruptError(
                f"call {call.call_id!r} has versions of tokens {first:,} to {stop - 1:,}, and recording "
                f"{call.recording_id!r} has {recording['tokens']:,} tokens",
                where=store.root,
                next_step="Run `inkplex-data verify` on the store, and build it again.",
            )
        table = store.table("recordings", recording["shard"], "tokens").read_arrow(
            recording["token_offset"] + first, stop - first, columns=["kind", "piece_ids"]
        )
        pieces = table["piece_ids"].combine_chunks()
        lengths = pc.list_value_length(pieces).fill_null(0).to_numpy(zero_copy_only=False)
        return cls(
            versions=replace(versions, row=versions.row - np.int32(first)),
            kind=_kinds(table.unify_dictionaries()["kind"].combine_chunks()),
            piece_offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            piece_ids=pieces.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False),
            first_token=first,
            states=store.states(recording["shard"]),
            state_row=recording["token_offset"],
        )


def _versions(store: Store, call: Call) -> VersionColumns:
    """The stored versions, or those that a partner's memory has in this call."""
    columns = list(_DTYPES)
    if call.memory_of is None:
        table: Any = store.table("calls", call.row["shard"], "versions").read_arrow(
            call.row["version_offset"], call.row["versions"], columns=columns
        )
    else:
        table = call.versions.select(columns).to_arrow()
    return VersionColumns(
        **{name: table[name].to_numpy().astype(dtype, copy=False) for name, dtype in _DTYPES.items()}
    )


def _kinds(column: pa.DictionaryArray) -> NDArray[np.uint8]:
    """Index into `grid.KINDS` of each: the dictionary of a file may have another order."""
    places = np.array([KINDS.index(kind) for kind in column.dictionary.to_pylist()], np.uint8)
    codes: NDArray[np.uint8] = places[column.indices.to_numpy(zero_copy_only=False)]
    return codes
