"""Whose memory a call gets as the wrong one, for evaluations that compare right with wrong memory.

Use: seeds/000, "Current sequence memory", section 11. Every validation and test call gets a partner from
another family, with a recording that shares no past with the call's own. The wrong memory is the
partner's tokens and its start on the session clock, with the call's own prefix and frames.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
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


class PartnerRings:
    """Who may be whose partner: candidates on one ring a split, by a digest of their ids.

    Partners come from the call's own split where it has one, else from the other evaluated split, else
    from train: a memory that training has read is the last resort. `branches` maps a recording to what
    it branches from (`memory.twins`); a twin of the call's own recording is never its wrong memory.

    The choice depends on ids and `seed`, never on order: a call takes the first candidate past its own place
    that will do. So a family that is added or goes changes few partners.
    """

    def __init__(
        self,
        calls: Iterable[Candidate],
        *,
        seed: int = 0,
        branches: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        self._seed = seed
        self._calls = {call.call_id: call for call in calls}
        self._roots = {
            call.recording_id: root_of(branches or {}, call.recording_id)
            for call in self._calls.values()
            if call.recording_id
        }
        self._rings: dict[str, list[tuple[str, Candidate]]] = {}
        for call in self._calls.values():
            if call.recording_id:
                digest = _digest(seed, "partner", call.call_id)
                self._rings.setdefault(call.split, []).append((digest, call))
        for ring in self._rings.values():
            ring.sort(key=lambda entry: entry[0])

    def partner(self, call_id: str, *, without: Container[str] = ()) -> str | None:
        """The partner of a validation or test call among those not in `without`, None where none will do."""
        call = self._calls[call_id]
        if call.split not in EVALUATED:
            return None
        start = _digest(self._seed, "call", call_id)
        for split in dict.fromkeys([call.split, *EVALUATED, "train"]):
            ring = self._rings.get(split, [])
            first = bisect_left(ring, start, key=lambda entry: entry[0])
            for step in range(len(ring)):
                other = ring[(first + step) % len(ring)][1]
                if other.call_id not in without and self.suits(call_id, other.call_id):
                    return other.call_id
        return None

    def suits(self, call_id: str, other_id: str) -> bool:
        """Whether the other call is known, of another family, and has a memory that shares no past with the call's."""
        call, other = self._calls[call_id], self._calls.get(other_id)
        if other is None or other.recording_id is None or other.family == call.family:
            return False
        own = self._roots[call.recording_id] if call.recording_id else None
        return self._roots[other.recording_id] != own


def choose_partners(
    calls: Iterable[Candidate], *, seed: int = 0, branches: Mapping[str, tuple[str, int]] | None = None
) -> dict[str, str | None]:
    """The partner of every validation and test call, None where no other family has a recording."""
    listed = sorted(calls, key=lambda call: call.call_id)
    rings = PartnerRings(listed, seed=seed, branches=branches)
    return {call.call_id: rings.partner(call.call_id) for call in listed if call.split in EVALUATED}


class Partners:
    """The partners of calls that may still be refused: one whose partner is refused takes the next on its ring.

    What comes out depends on which calls stand, never on when the others were refused. `stored` are choices of
    an earlier build, which stay as long as they suit.
    """

    def __init__(self, rings: PartnerRings, *, stored: Mapping[str, str | None] | None = None) -> None:
        self._rings = rings
        self._refused: set[str] = set()
        self._chosen: dict[str, str | None] = {
            call_id: partner
            for call_id, partner in (stored or {}).items()
            if partner is not None and rings.suits(call_id, partner)
        }

    def refuse(self, call_id: str) -> None:
        """Nobody's partner any more."""
        self._refused.add(call_id)

    def of(self, call_id: str) -> str | None:
        """The call's partner as things stand: None for a training call, and where no other family has a recording."""
        if call_id not in self._chosen or self._chosen[call_id] in self._refused:
            self._chosen[call_id] = self._rings.partner(call_id, without=self._refused)
        return self._chosen[call_id]


def _digest(seed: int, use: str, call_id: str) -> str:
    return hashlib.sha256(f"{seed}\0{use}\0{call_id}".encode()).hexdigest()
