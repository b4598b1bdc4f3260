"""Audit of a call's row against what it is a row of: its length, its words and text, its sidecar, its prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from inkplex_data.clock import frames_of_samples, samples_to_us
from inkplex_data.grid import MASK_HIDDEN_TEXT, NO_INPUT, SPLITS, TAG_FIRST
from inkplex_data.store.call import Call, StoredPrefix
from inkplex_data.store.documents import parse_value


def row_faults(call: Call, prefix: StoredPrefix | None, wanted: Mapping[str, Any] | None) -> Iterator[str]:
    """What is wrong with a call's row. `prefix`: the one that it names, None without one; `wanted`: what the store's
    recipe says of prefixes."""
    row = call.row
    if row["samples"] is not None and row["frames"] != frames_of_samples(row["samples"]):
        yield f"it has {row['frames']} frames, and {row['samples']} samples fill {frames_of_samples(row['samples'])}"
    if row["samples"] is not None and row["duration_us"] not in (None, samples_to_us(row["samples"])):
        yield f"it lasts {row['duration_us']} µs, and {row['samples']} samples {samples_to_us(row['samples'])} µs"
    if row["split"] not in SPLITS:
        yield f"it is in split {row['split']!r}, which is none"
    yield from _pad_faults(call)
    if "sidecar" in parse_value(row.get("inputs") or "{}", where=call.call_id) and row["sidecar"] is None:
        yield "it was built with a sidecar, and has none"
    if prefix is None and wanted is not None:
        yield "it has no prefix, and the recipe makes one"
    if prefix is not None and wanted is not None:
        yield from _prefix_faults(call, prefix, wanted)


def _pad_faults(call: Call) -> Iterator[str]:
    """The share of frames without a piece is that of the stream, unless some are withheld from it."""
    share = call.row["pad_fraction"]
    if share is None or not call.frames or (call.text == NO_INPUT).any():
        return
    stream = np.float32((call.role < TAG_FIRST).mean())
    if np.float32(share) != stream:
        yield f"its pad_fraction is {share:.4f}, and {stream:.4f} of its frames have no piece"
    if ((call.mask & MASK_HIDDEN_TEXT != 0) & (call.role < TAG_FIRST)).any():
        yield "its mask hides text where there is none"


def _prefix_faults(call: Call, prefix: StoredPrefix, wanted: Mapping[str, Any]) -> Iterator[str]:
    row, own = call.row, prefix.row
    if own["role"] != (row["role"] if wanted.get("role") else None):
        yield f"its prefix is of role {own['role']!r:.60}, and the call of {row['role']!r:.60}"
    if own["voice"] is not None and row["voice"] is not None and own["voice"] != row["voice"]:
        yield f"its prefix is of voice {own['voice']!r:.60}, and the call of {row['voice']!r:.60}"
    if own["split"] is not None and own["split"] != row["split"]:
        yield f"its prefix is of split {own['split']!r}, and the call of {row['split']!r}"
    source = own["voice_source"] or ""
    if source.startswith(f"call:{call.call_id}@"):
        yield "its prefix has its own voice sample, so that what is to be said is heard before"
