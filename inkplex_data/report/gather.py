"""Views and summaries of an opened store. The only part of the reports that knows about stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import LEVEL_FLOOR_DB
from inkplex_data.plural import counted
from inkplex_data.report.clock_delays import clock_delays
from inkplex_data.report.summary import StoreSummary, summarise
from inkplex_data.report.view import CallView, Mark, PrefixSummary, ViewedProblem
from inkplex_data.store.publish import read_shard

if TYPE_CHECKING:
    from inkplex_data.store.call import Call
    from inkplex_data.store.reader import Store


def call_view(store: Store, call_id: str) -> CallView:
    """The view of one call. Raises UsageError for an unknown call."""
    return view_of(store, store.call(call_id))


def view_of(store: Store, call: Call) -> CallView:
    """The view of a call of this store."""
    row = call.row
    levels = call.level.astype(np.float32)
    # A store made without audio keeps the floor throughout; lanes then follow the words.
    agent_db, caller_db = levels if (levels > LEVEL_FLOOR_DB).any() else (None, None)
    start = row.get("response_start_frame")
    return CallView(
        call_id=call.call_id,
        ids=call.text,
        tags=call.role,
        spelled=_spelled(store.pieces(), call.words, call.text),
        mask=call.mask,
        words=call.words,
        agent_db=agent_db,
        caller_db=caller_db,
        prefix=_prefix(store, row),
        tokens=None if call.recording_id is None else call.tokens,
        recording_starts_at_us=call.recording_starts_at_us or 0,
        window=store.window,
        permitted=call.permitted,
        main_speaker=None
        if store.is_single_stream
        else store.setting("text", "main_speaker") or "SPEAKER_MAIN",
        marks=() if start is None else (Mark(int(start), "response"),),
        problems=_problems(call),
        facts=_facts(row, call),
    )


def store_summary(store: Store) -> StoreSummary:
    """The summary of a store at its snapshot; bytes are summed from the shards' own listings."""
    return summarise(
        store.root,
        calls=store.calls().collect(),
        problems=store.problems().collect(),
        recordings=store.recordings().collect(),
        prefixes=store.prefixes().collect(),
        description=store.description,
        bytes_by_part=_bytes_by_part(store),
        complete=store.complete,
    )


def _bytes_by_part(store: Store) -> dict[str, int]:
    """Bytes by kind of shard, from each `shard.json`."""
    sizes: dict[str, int] = {}
    for ref in store.snapshot.shards:
        info = read_shard(store.files, ref.kind, ref.shard)
        if info is not None:
            sizes[ref.kind] = sizes.get(ref.kind, 0) + info.size_bytes
    return sizes


def _spelled(pieces: pl.Series | None, words: pl.DataFrame, ids: NDArray[np.int32]) -> dict[int, str]:
    """Spellings of the call's pieces, whether placed in its stream or lost from it."""
    if pieces is None:
        return {}
    used = set(words["pieces"].explode().drop_nulls().to_list()) | set(ids.tolist())
    return {piece: pieces[piece] for piece in used if 0 <= piece < len(pieces)}


def _problems(call: Call) -> tuple[ViewedProblem, ...]:
    """What is wrong with the call, by place; what has none comes first."""
    rows = call.problems.sort("at_us", nulls_last=False).iter_rows(named=True)
    return tuple(
        ViewedProblem(
            code=row["code"],
            severity=row["severity"],
            message=f"{row['item']}: {row['message']}" if row["item"] else row["message"],
            frame=None if row["at_us"] is None else min(max(row["at_us"] // FRAME_US, 0), call.frames - 1),
        )
        for row in rows
    )


def _prefix(store: Store, row: Mapping[str, Any]) -> PrefixSummary | None:
    if row["prefix_id"] is None:
        return None
    found = store.prefixes().filter(pl.col("prefix_id") == row["prefix_id"]).collect()
    if not found.height:
        return None
    prefix = found.row(0, named=True)
    return PrefixSummary(
        frames=prefix["frames"],
        voice=prefix["voice"],
        role=prefix["role"],
        voice_frames=prefix["voice_frames"] or 0,
        role_pieces=prefix["role_pieces"] or 0,
    )


def _facts(row: Mapping[str, Any], call: Call) -> dict[str, str]:
    facts = {
        "split": row["split"],
        "family": row["family"],
        "voice": row["voice"],
        "recording": row["recording_id"],
        "family because": row["family_reason"],
        "origin of agent": row["agent_origin"],
        "origin of caller": row["caller_origin"],
        "decisions": ", ".join(filter(None, row["decisions"] or ())) or None,
    }
    if row["recording_id"] is not None:
        facts["begins"] = f"{(row['recording_starts_at_us'] or 0) / 1e6:.2f} s into the recording"
        mapping = (
            call.sidecar.private_updates.mapping if call.sidecar and call.sidecar.private_updates else None
        )
        facts["begins"] += f" ({mapping.kind})" if mapping else ""
        facts["delays"] = "; ".join(map(str, clock_delays(call.tokens))) or None
        facts["versions"] = f"{row['versions']:,}"
        facts["wrong memory"] = row["wrong_memory_of"]
    facts["claims"] = (
        f"{row['claims']:,} on {counted(row['evidence'], 'item')} of evidence" if row["claims"] else None
    )
    facts["words"] = f"{row['words']:,}"
    facts["pad"] = f"{row['pad_fraction']:.0%}" if row["pad_fraction"] is not None else None
    lost = [counted(row[f"{noun}s_dropped"], noun) for noun in ("word", "piece") if row[f"{noun}s_dropped"]]
    facts["dropped"] = ", ".join(lost) or None
    return {name: str(value) for name, value in facts.items() if value is not None}
