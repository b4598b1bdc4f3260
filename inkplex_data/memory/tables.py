"""The tables that the memory of a recording is made of. The store keeps them under the same names."""

from __future__ import annotations

from typing import Final

import polars as pl

from inkplex_data import grid

KIND: Final = pl.Enum(grid.KINDS)
MEDIA: Final = pl.Enum(grid.MEDIA)

TOKENS: Final[dict[str, pl.DataType]] = {
    "recording_ix": pl.Int32(),
    "row": pl.Int32(),
    "call": pl.Int32(),
    "position": pl.Int32(),
    "token_id": pl.Int32(),
    "kind": KIND,
    "bytes": pl.Binary(),
    "special": pl.Boolean(),
    "media": MEDIA,
    "arrival_us": pl.Int64(),
    "available_us": pl.Int64(),
    "ready_us": pl.Int64(),
    "source_us": pl.Int64(),
    "rank": pl.Int32(),
    "word_ix": pl.Int32(),
    "piece_ids": pl.List(pl.Int32()),
}
"""In layout order, (call, position): `row` is the index, and the row of the states array. `call` is the
number of the model's request that computed the token. Its clocks stay apart: `source_us` is when what it tells of
happened, `available_us` when it was there at the source, `ready_us` when it had been delivered to the host, null
where nobody says; `arrival_us`, from which on it is seen, is the later of the last two."""

NEVER_US: Final = 2**63 - 1

WHOLE: Final[dict[str, pl.DataType]] = {"complete_us": pl.Int64(), "oldest_rank": pl.Int64()}
"""When tokens are whole (`Words.whole_limits`), kept beside TOKENS during a build and not in a store.

A token that touches no word has `NEVER_US` and −1.
"""

VERSIONS: Final[dict[str, pl.DataType]] = {
    "call_ix": pl.Int64(),
    "row": pl.Int32(),
    "start": pl.Int32(),
    "end": pl.Int32(),
    "recency": pl.UInt8(),
    "age": pl.UInt8(),
    "whole": pl.Boolean(),
}
"""Call-relative: start and end are steps of the call with no prefix."""
