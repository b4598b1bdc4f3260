"""Whose memory a call gets as the wrong one, for evaluations that compare right with wrong memory.

Use: seeds/000, "Current sequence memory", section 11. Every validation and test call gets a partner from
another family, with a recording that shares no past with the call's own. The wrong memory is the
partner's tokens and its start on the session clock, with the call's own prefix and frames.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inkplex_data.memory.twins import root_of

EVALUATED = ("validation", "test")


@dataclass(frozen=True)
class Candidate:
    """What the choice depends on: columns of the calls table. `recording_id` is None without memory."""

    call_id: str
    family: str
    split: str
    recording_id: str | None


def choose_partners(
    calls: Iterable[Candidate], *, seed: int = 0, branches: Mapping[str, tuple[str, int]] | None = None
) -> dict[str, str | None]:
    """The partner of every validation and test call, None where no other family has a recording.

    Partners come from the call's own split where it has one, else from the other evaluated split, else
    from train: a memory that training has read is the last resort. `branches` maps a recording to what
    it branches from (`memory.twins`); a twin of the call's own recording is never its wrong memory.

    The choice depends on ids and `seed`, never on order: candidates lie on a ring by their digest, and
    a call takes the first one past its own that will do. So a family that is added changes few partners.
    """
    listed = sorted(calls, key=lambda call: call.call_id)
    roots = {
        call.recording_id: root_of(branches or {}, call.recording_id) for call in listed if call.recording_id
    }
    rings: dict[str, list[tuple[str, Candidate]]] = {}
    for call in listed:
        if call.recording_id:
            rings.setdefault(call.split, []).append((_digest(seed, "partner", call.call_id), call))
    for ring in rings.values():
        ring.sort(key=lambda entry: entry[0])

    def partner(call: Candidate) -> str | None:
        own_root = roots.get(call.recording_id) if call.recording_id else None
        start = _digest(seed, "call", call.call_id)
        for split in dict.fromkeys([call.split, *EVALUATED, "train"]):
            ring = rings.get(split, [])
            first = bisect_left(ring, start, key=lambda entry: entry[0])
            for step in range(len(ring)):
                other = ring[(first + step) % len(ring)][1]
                if other.family != call.family and roots[other.recording_id or ""] != own_root:
                    return other.call_id
        return None

    return {call.call_id: partner(call) for call in listed if call.split in EVALUATED}


def _digest(seed: int, use: str, call_id: str) -> str:
    return hashlib.sha256(f"{seed}\0{use}\0{call_id}".encode()).hexdigest()
