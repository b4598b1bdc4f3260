"""Turn-taking of a two-speaker call: inter-pausal units, pauses, gaps, overlaps and barge-ins. Pure.

Definitions and human figures: seeds/002, chapter 9, "Axis 3". An inter-pausal unit (IPU) is a stretch of one
side's speech that at least 0.2 s of its silence bounds on each side. Where nobody speaks, the silence between
two units of one speaker is a pause and that between two speakers a gap; what comes before the first unit and
after the last is neither. All times are int64 microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import US_PER_S

Intervals = npt.NDArray[np.int64]
"""int64 [n, 2]: start and end of each stretch, µs, ends exclusive."""

IPU_SILENCE_US: Final = 200_000

HUMAN_S_PER_MINUTE: Final = {"ipu": 51.1, "pause": 6.4, "gap": 4.2, "overlap": 3.3}
"""Seconds of each in a minute of human conversation: the ground-truth row of the turn-taking table, measured on
Fisher (seeds/002, chapter 9, Axis 3). The text says "per conversation"; read per minute they fit together,
51.1 − 3.3 + 6.4 + 4.2 being 58.4 s."""
HUMAN_GAP_MS: Final = 230.0
"""Mean gap between turns over ten languages (seeds/002, chapter 8)."""
HUMAN_PAD_FRACTION: Final = 0.65
"""Share of padding in the text stream of English conversation (seeds/002, chapters 1 and 6)."""


@dataclass(frozen=True)
class TurnStatistics:
    """What one call's units show. Lengths are int64 arrays in µs, in order of time.

    `caller_barge_ins`: onsets of the caller inside a unit of the agent after which the caller goes on and the
    agent stops; `agent_barge_ins` the other way round. A unit that lies wholly inside one of the other side
    is a backchannel.
    """

    duration_us: int
    agent_ipus: int
    caller_ipus: int
    agent_speech_us: int
    caller_speech_us: int
    pauses_us: npt.NDArray[np.int64]
    gaps_us: npt.NDArray[np.int64]
    overlaps_us: npt.NDArray[np.int64]
    caller_barge_ins: int
    agent_barge_ins: int
    backchannels: int

    def ratio(self, speech_us: int) -> float:
        """Part of the call; 0 for a call without length."""
        return speech_us / self.duration_us if self.duration_us else 0.0


def units(intervals: npt.ArrayLike, *, silence_us: int = IPU_SILENCE_US) -> Intervals:
    """Units of speech intervals [n, 2] in any order: neighbours with less than `silence_us` between them are one."""
    given = np.asarray(intervals, np.int64).reshape(-1, 2)
    given = given[given[:, 1] > given[:, 0]]
    if not len(given):
        return np.zeros((0, 2), np.int64)
    given = given[np.argsort(given[:, 0], kind="stable")]
    reached = np.maximum.accumulate(given[:, 1])
    first = np.concatenate([[True], given[1:, 0] - reached[:-1] >= silence_us])
    last = np.concatenate([first[1:], [True]])
    return np.stack([given[first, 0], reached[last]], axis=1)


def units_of_activity(active: npt.NDArray[np.bool_], step_us: int) -> Intervals:
    """Units of a detector's verdicts bool [t], one every `step_us`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8)))
    return units(edges.reshape(-1, 2).astype(np.int64) * step_us)


def turn_statistics(agent: Intervals, caller: Intervals, duration_us: int) -> TurnStatistics:
    """Statistics of the units of both sides, each sorted and disjoint as `units` returns them."""
    caller_in, caller_inside = _interruptions(agent, caller)
    agent_in, agent_inside = _interruptions(caller, agent)
    pauses, gaps = _silences(agent, caller)
    return TurnStatistics(
        duration_us=duration_us,
        agent_ipus=len(agent),
        caller_ipus=len(caller),
        agent_speech_us=int((agent[:, 1] - agent[:, 0]).sum()),
        caller_speech_us=int((caller[:, 1] - caller[:, 0]).sum()),
        pauses_us=pauses,
        gaps_us=gaps,
        overlaps_us=_overlaps(agent, caller),
        caller_barge_ins=caller_in,
        agent_barge_ins=agent_in,
        backchannels=caller_inside + agent_inside,
    )


def _overlaps(a: Intervals, b: Intervals) -> npt.NDArray[np.int64]:
    """Lengths of the stretches in which both speak."""
    lengths, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        length = min(a[i, 1], b[j, 1]) - max(a[i, 0], b[j, 0])
        if length > 0:
            lengths.append(int(length))
        if a[i, 1] <= b[j, 1]:
            i += 1
        else:
            j += 1
    return np.array(lengths, np.int64)


def _silences(agent: Intervals, caller: Intervals) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lengths of pauses and gaps. Where both sides end or begin together, the silence has one speaker on both ends."""
    marked = [(int(start), int(end), side) for side, own in enumerate((agent, caller)) for start, end in own]
    pauses: list[int] = []
    gaps: list[int] = []
    reached, ended = None, set[int]()
    onsets = {side: {int(start) for start in own[:, 0]} for side, own in enumerate((agent, caller))}
    for start, end, side in sorted(marked):
        if reached is not None and start > reached:
            begun = {other for other in (0, 1) if start in onsets[other]}
            (pauses if begun & ended else gaps).append(start - reached)
        if reached is None or end > reached:
            reached, ended = end, {side}
        elif end == reached:
            ended = ended | {side}
    return np.array(pauses, np.int64), np.array(gaps, np.int64)


def _interruptions(holder: Intervals, other: Intervals) -> tuple[int, int]:
    """Units of `other` that begin inside one of `holder`: those that outlast it, and those that do not."""
    if not len(holder) or not len(other):
        return 0, 0
    at = np.searchsorted(holder[:, 0], other[:, 0], side="left") - 1
    ends = holder[np.maximum(at, 0), 1]
    inside = (at >= 0) & (other[:, 0] < ends)
    outlasts = inside & (other[:, 1] > ends)
    return int(outlasts.sum()), int((inside & ~outlasts).sum())


def words_per_minute(words: int, speech_us: int) -> float | None:
    """Pace of one side's speech, over the time in which it speaks; None where it does not."""
    return 60.0 * US_PER_S * words / speech_us if speech_us and words else None
