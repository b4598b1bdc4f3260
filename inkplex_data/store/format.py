"""Store format 1: names, table schemas and array geometry. No I/O here. (Tokens and versions: `memory/tables.py`.)

A table may gain nullable columns, and a shard tables: `ADDED` names what shards lack that were written before.

Layout (docs/reference/store.md has the whole of it):
    store.json   snapshots/NNNNNN.json   calls|problems|splits|recordings|prefixes.parquet
    calls/NNNNNN/        calls, words, versions, evidence, claims, problems .parquet   arrays.zarr   shard.json
    recordings/NNNNNN/   recordings, tokens .parquet   arrays.zarr   shard.json
    prefixes/NNNNNN/     prefixes.parquet   arrays.zarr   shard.json
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from inkplex_data.memory.tables import TOKENS, VERSIONS

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
    "evidence_offset": pl.Int64(),
    "evidence": pl.Int64(),
    "claim_offset": pl.Int64(),
    "claims": pl.Int64(),
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
    "family_reason": pl.String(),
    "agent_origin": pl.String(),
    "caller_origin": pl.String(),
    "decisions": pl.List(pl.String()),
    "target_statuses": pl.List(pl.String()),
    "target_writers": pl.List(pl.String()),
}
"""Columns every calls table has; builders may append more (turn statistics). `text_conditions` and
`sidecar` hold JSON text. `source` is the path as the corpus spells it. The last six are null where nothing is known:
why the call is of another family than its corpus says, who made each side's sound, and for each target of the sidecar,
in its order, the decision, the status and the writer."""

_SAMPLES: Final = pl.List(pl.Struct({"start": pl.Int64(), "end": pl.Int64()}))
HISTORY: Final = pl.List(
    pl.Struct(
        {
            "segment": pl.String(),
            "source": pl.String(),
            "text": pl.String(),
            "generated": _SAMPLES,
            "queued": _SAMPLES,
            "played": _SAMPLES,
            "cancelled": _SAMPLES,
            "is_heard_known": pl.Boolean(),
            "observation": pl.String(),
            "device": pl.String(),
            "acknowledged_us": pl.Int64(),
            "cut": pl.Boolean(),
        }
    )
)
"""The column `history` of the calls table: what became of each earlier segment of the agent's speech, in samples at 24
kHz from the call's first one; a boundary is null where it is unknown."""

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
    "uncertainty_us": pl.Int64(),
    "provenance": pl.String(),
}
"""`frame` is the onset frame, −1 where no piece was placed; `placed` counts the pieces that survived."""

EVIDENCE: Final[dict[str, pl.DataType]] = {
    "call_ix": pl.Int64(),
    "evidence_id": pl.String(),
    "kind": pl.String(),
    "reference": pl.String(),
    "status": pl.String(),
    "attribution": pl.String(),
    "available_us": pl.Int64(),
    "ready_us": pl.Int64(),
    "arrival_us": pl.Int64(),
    "superseded_by": pl.String(),
    "superseded_us": pl.Int64(),
}
"""What a call's sidecar gives as evidence, in its order. Times count from the call's first sample; `arrival_us`, from
which on claims may rest on it, is the later of `available_us` and `ready_us`. `status`: pending, succeeded, failed,
superseded or unknown; `superseded_us` is the arrival of `superseded_by`, null where it is not known or did not happen."""

CLAIMS: Final[dict[str, pl.DataType]] = {
    "call_ix": pl.Int64(),
    "claim_ix": pl.Int32(),
    "text": pl.String(),
    "start_us": pl.Int64(),
    "end_us": pl.Int64(),
    "supported_by": pl.List(pl.String()),
    "words": pl.List(pl.Int32()),
    "targets": pl.List(pl.Int32()),
}
"""What the agent claims, and what it rests on: `evidence_id`s. `words` are the `word_ix` of the words that make the
claim, `targets` the places among the sidecar's targets of those that it is made in."""

PROBLEMS: Final[dict[str, pl.DataType]] = {
    "call_id": pl.String(),
    "stage": pl.String(),
    "code": pl.String(),
    "severity": pl.String(),
    "item": pl.String(),
    "message": pl.String(),
    "at_us": pl.Int64(),
}
"""`at_us`: where in the call a problem lies, from its first sample; null where it has no place or none is known."""

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
    "schedule": pl.String(),
    "states_identity": pl.String(),
    "state_digests": pl.List(pl.Struct({"request": pl.Int32(), "rows": pl.Int64(), "sha256": pl.String()})),
}
"""`times` is `recorded` or `constructed`; `schedule` is JSON text: the declared schedule of constructed times, with its
seed where it draws. `states` says where they came from: `captured`, `imported` or `none`. `token_offset` is the first
row in the shard's tokens table and states array. `state_width` is 0 without states. `states_identity`: JSON of
`corpus.recordings.states_identity`; `state_digests`: per request the SHA-256 of its rows, as little-endian uint16 in
layout order."""

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

TABLES: Final[dict[ShardKind, dict[str, dict[str, pl.DataType]]]] = {
    "calls": {
        "calls": CALLS,
        "words": WORDS,
        "versions": VERSIONS,
        "evidence": EVIDENCE,
        "claims": CLAIMS,
        "problems": PROBLEMS,
    },
    "recordings": {"recordings": RECORDINGS, "tokens": TOKENS},
    "prefixes": {"prefixes": PREFIXES},
}

ADDED: Final[dict[str, frozenset[str]]] = {
    "calls": frozenset(
        {
            "family_reason",
            "agent_origin",
            "caller_origin",
            "decisions",
            "target_statuses",
            "target_writers",
            "evidence_offset",
            "evidence",
            "claim_offset",
            "claims",
        }
    ),
    "words": frozenset({"uncertainty_us", "provenance"}),
    "problems": frozenset({"at_us"}),
    "recordings": frozenset({"schedule", "states_identity", "state_digests"}),
    "tokens": frozenset({"available_us", "ready_us", "source_us"}),
    "evidence": frozenset(EVIDENCE),
    "claims": frozenset(CLAIMS),
}
"""Columns by table that older shards lack, read as null. A table all of whose columns are here may itself be absent."""


def offset_column(table: str) -> str:
    """The column of the calls or recordings table that says where a part's rows of `table` begin."""
    return f"{table.removesuffix('s')}_offset"


def added_columns(table: str) -> dict[str, pl.DataType]:
    """The columns of a table that older shards may lack, with their types."""
    schemas = {name: schema for tables in TABLES.values() for name, schema in tables.items()}
    return {name: dtype for name, dtype in schemas.get(table, {}).items() if name in ADDED.get(table, ())}


def with_added(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Rows of a table, with nulls for the added columns that they lack."""
    lacking = {name: dtype for name, dtype in added_columns(table).items() if name not in rows.columns}
    return rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in lacking.items())
