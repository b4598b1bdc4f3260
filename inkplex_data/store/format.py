"""Store format 1: names, table schemas and array geometry. No I/O here. (Tokens and versions: `memory/tables.py`.)

Layout (docs/reference/store.md has the whole of it):
    store.json   snapshots/NNNNNN.json   calls|problems|splits|recordings|prefixes.parquet
    calls/NNNNNN/        calls, words, versions, problems .parquet   arrays.zarr   shard.json
    recordings/NNNNNN/   recordings, tokens .parquet   arrays.zarr   shard.json
    prefixes/NNNNNN/     prefixes.parquet   arrays.zarr   shard.json
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

FORMAT: Final = 1

ShardKind = Literal["calls", "recordings", "prefixes"]
SHARD_KINDS: Final[tuple[ShardKind, ...]] = ("calls", "recordings", "prefixes")

STATES_INNER_ROWS: Final = 64
STATES_SHARD_ROWS: Final = 8_192
FRAME_CHUNK: Final = 4_096

CALLS: Final[dict[str, pl.DataType]] = {
    "call_id": pl.String(),
    "call_ix": pl.Int64(),
    "shard": pl.Int32(),
    "frame_offset": pl.Int64(),
    "frames": pl.Int32(),
    "samples": pl.Int64(),
    "word_offset": pl.Int64(),
    "words": pl.Int64(),
    "version_offset": pl.Int64(),
    "versions": pl.Int64(),
    "recording_id": pl.String(),
    "recording_starts_at_us": pl.Int64(),
    "prefix_id": pl.String(),
    "wrong_memory_of": pl.String(),
    "split": pl.String(),
    "family": pl.String(),
    "voice": pl.String(),
    "role": pl.String(),
    "duration_us": pl.Int64(),
    "words_dropped": pl.Int32(),
    "pieces_dropped": pl.Int32(),
    "pad_fraction": pl.Float32(),
    "response_start_frame": pl.Int32(),
    "audio_sha256": pl.String(),
    "codec": pl.String(),
    "source": pl.String(),
    "text_conditions": pl.String(),
    "sidecar": pl.String(),
}
"""Columns every calls table has; builders may append more (turn statistics). `text_conditions` and
`sidecar` hold JSON text. `source` is the path as the corpus spells it."""

WORDS: Final[dict[str, pl.DataType]] = {
    "call_ix": pl.Int64(),
    "word_ix": pl.Int32(),
    "text": pl.String(),
    "start_us": pl.Int64(),
    "end_us": pl.Int64(),
    "speaker": pl.String(),
    "frame": pl.Int32(),
    "pieces": pl.List(pl.Int32()),
    "placed": pl.Int16(),
    "confidence": pl.Float32(),
    "method": pl.String(),
}
"""`frame` is the onset frame, −1 where no piece was placed; `placed` counts the pieces that survived."""

PROBLEMS: Final[dict[str, pl.DataType]] = {
    "call_id": pl.String(),
    "stage": pl.String(),
    "code": pl.String(),
    "severity": pl.String(),
    "item": pl.String(),
    "message": pl.String(),
}

RECORDINGS: Final[dict[str, pl.DataType]] = {
    "recording_id": pl.String(),
    "recording_ix": pl.Int32(),
    "shard": pl.Int32(),
    "token_offset": pl.Int64(),
    "tokens": pl.Int64(),
    "state_width": pl.Int32(),
    "model": pl.String(),
    "tokenizer": pl.String(),
    "times": pl.String(),
    "branch_of": pl.String(),
    "branch_at_us": pl.Int64(),
    "content_sha256": pl.String(),
    "states": pl.String(),
    "states_identity": pl.String(),
    "state_digests": pl.List(pl.Struct({"request": pl.Int32(), "rows": pl.Int64(), "sha256": pl.String()})),
}
"""`times` is `recorded` or `constructed`; `states` says where they came from: `captured`, `imported` or `none`.
`token_offset` is the first row in the shard's tokens table and states array. `state_width` is 0 without states.
`states_identity`: JSON of `corpus.recordings.states_identity`; `state_digests`: per request the SHA-256 of its rows, as
little-endian uint16 in layout order. Both are null in stores of before."""

LATER_COLUMNS: Final = frozenset({"states_identity", "state_digests"})
"""Columns that stores of before do not have; they are null there."""

PREFIXES: Final[dict[str, pl.DataType]] = {
    "prefix_id": pl.String(),
    "shard": pl.Int32(),
    "frame_offset": pl.Int64(),
    "frames": pl.Int32(),
    "voice": pl.String(),
    "role": pl.String(),
    "split": pl.String(),
    "voice_source": pl.String(),
    "voice_frames": pl.Int32(),
    "role_pieces": pl.Int32(),
}

SPLIT_TABLE: Final[dict[str, pl.DataType]] = {"family": pl.String(), "split": pl.String()}
