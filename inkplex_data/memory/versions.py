"""Versions: for every token, the step intervals over which its place in the memory stays the same.

Rules: seeds/000, "Current sequence memory", sections 3–5. A token is live from its arrival until the
window has moved past it. While it is live its recency bucket, its age bucket and whether its words are
whole change at known moments; each stretch between two changes is one version.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import FRAME_US, US_PER_S, session_us
from inkplex_data.grid import WINDOW
from inkplex_data.memory.permissions import Permitted
from inkplex_data.memory.tables import VERSIONS, WHOLE
from inkplex_data.memory.token_order import arrival_rank, in_layout_order
from inkplex_data.memory.words import assemble_words

RECENCY_BUCKETS = 17
AGE_BUCKETS = 15

_COLUMNS = ("row", "start", "end", "recency", "age", "whole")
_SCHEMA = {name: VERSIONS[name] for name in _COLUMNS}
# Far beyond any session, and far enough from the ends of int64 that sums below cannot overflow.
_TIME_LIMIT_US = 2**62
_OLDEST_AGE_US = (2 ** (AGE_BUCKETS - 1) - 1) * US_PER_S


@dataclass(frozen=True)
class SessionClock:
    """Maps the steps of one call onto session time.

    `recording_starts_at_us`: session time at which the call's audio begins. `prefix_frames`: steps
    before the call, all of which read the memory of its start. `frames`: all steps, prefix included.
    """

    recording_starts_at_us: int
    prefix_frames: int
    frames: int

    def __post_init__(self) -> None:
        if self.prefix_frames < 0 or self.frames < 0:
            raise ValueError(
                f"frames cannot be negative: {self.prefix_frames} of prefix, {self.frames} in all"
            )
        if abs(self.recording_starts_at_us) > _TIME_LIMIT_US - self.frames * FRAME_US:
            raise ValueError(f"{self.recording_starts_at_us} µs is outside what session time can hold")

    def session_us(self, step: int) -> int:
        """Session time of `step` in microseconds."""
        return session_us(
            step, recording_starts_at_us=self.recording_starts_at_us, prefix_frames=self.prefix_frames
        )

    def step_us(self) -> NDArray[np.int64]:
        """Session time of every step in microseconds; int64 [frames], never decreasing."""
        since_prefix = np.maximum(np.arange(self.frames, dtype=np.int64) - self.prefix_frames, 0)
        return self.recording_starts_at_us + since_prefix * FRAME_US


def build_versions(
    tokens: pl.DataFrame,
    clock: SessionClock,
    *,
    window: int = WINDOW,
    whole: pl.DataFrame | None = None,
    permitted: Permitted | None = None,
) -> pl.DataFrame:
    """The versions that a call reads from a recording.

    `tokens`: columns call, position, special, bytes, arrival_us (and media, where there is any), in any
    order. `window`: how many of the newest tokens in arrival order stay live. `whole`: what
    `assemble_words(tokens).whole_limits(tokens)` gave, where it is at hand. `permitted`: in which stretches of
    session time each token may be seen (`memory.permissions`), from its arrival on by default.

    Returns row int32, start, end int32, recency, age uint8, whole bool, sorted by (row, start), where
    `row` is the index in layout order and [start, end) are steps of the clock. At most one version per
    token and step; neighbouring versions of a token differ.

    Raises ValueError for a bad window, missing columns, and `whole` or `permitted` of another number of tokens,
    RecordingError for a place claimed twice.

    Token 0 is the newest at steps 0 and 1 (recency 0). From step 2 on token 1 is there too, and the space in
    it makes the word of token 0 whole:

    >>> spelled = {"bytes": [b"hi", b" "], "special": False, "arrival_us": [0, 90_000]}
    >>> tokens = pl.DataFrame({"call": 0, "position": [0, 1]} | spelled)
    >>> build_versions(tokens, SessionClock(0, 0, 4)).rows()
    [(0, 0, 2, 0, 0, False), (0, 2, 4, 1, 0, True), (1, 2, 4, 0, 0, False)]
    """
    if window < 1:
        raise ValueError(f"a window holds at least one token, not {window}")
    tokens = in_layout_order(tokens)
    whole = assemble_words(tokens).whole_limits(tokens) if whole is None else whole
    for name, known in (("words", whole), ("permissions", permitted)):
        if known is not None and len(known) != len(tokens):
            raise ValueError(f"the {name} are those of {len(known)} tokens, not of these {len(tokens)}")
    if not len(tokens) or not clock.frames:
        return pl.DataFrame(schema=_SCHEMA)
    arrival_us = tokens["arrival_us"].to_numpy().astype(np.int64)
    times = _Timeline(arrival_us, clock.step_us(), window)
    start, end = times.step_of_count(times.rank + 1), times.step_of_eviction(times.rank)
    rows = np.flatnonzero(start < end)
    start, end, rank = start[rows], end[rows], times.rank[rows]
    # No age bucket changes after so long a time, so older arrivals may be clipped: no sum can overflow.
    arrival_us = np.maximum(arrival_us[rows], int(times.step_us[0]) - _OLDEST_AGE_US)
    whole_start, whole_end = _whole_steps(whole, times)
    whole_start, whole_end = whole_start[rows].clip(start, end), whole_end[rows].clip(start, end)
    # A token that is never whole must not be cut where its words would have become so.
    never = whole_start >= whole_end
    whole_start[never], whole_end[never] = end[never], end[never]

    changes = np.empty((len(rows), RECENCY_BUCKETS + AGE_BUCKETS + 1), np.int32)
    changes[:, 0], changes[:, 1], changes[:, 2] = start, whole_start, whole_end
    for bucket in range(1, RECENCY_BUCKETS):
        changes[:, 2 + bucket] = times.step_of_count(rank + 2**bucket)
    # Searching in arrival order walks through the steps in order, which is several times faster.
    by_arrival = np.argsort(arrival_us, kind="stable")
    for bucket in range(1, AGE_BUCKETS):
        due_us = arrival_us[by_arrival] + (2**bucket - 1) * US_PER_S
        changes[by_arrival, 1 + RECENCY_BUCKETS + bucket] = times.step_of_time(due_us)
    which, version_start = _distinct(changes, start, end)

    version_end = np.roll(version_start, -1)
    last = np.diff(which, append=-1) != 0
    version_end[last] = end[which[last]]
    seconds = (times.step_us[version_start] - arrival_us[which]) // US_PER_S
    versions = pl.DataFrame(
        {
            "row": rows[which].astype(np.int32),
            "start": version_start,
            "end": version_end,
            "recency": _log2(times.arrived[version_start] - rank[which], RECENCY_BUCKETS),
            "age": _log2(seconds + 1, AGE_BUCKETS),
            "whole": (whole_start[which] <= version_start) & (version_start < whole_end[which]),
        },
        schema=_SCHEMA,
    )
    return (
        versions if permitted is None else permitted.withhold(versions, assemble_words(tokens), times.step_us)
    )


class _Timeline:
    """At which step something about a session becomes true; `frames` stands for never."""

    def __init__(self, arrival_us: NDArray[np.int64], step_us: NDArray[np.int64], window: int) -> None:
        self.arrival_us = arrival_us
        self.step_us = step_us
        self.window = window
        self.rank = arrival_rank(arrival_us)
        self.arrived = np.searchsorted(np.sort(arrival_us), step_us, side="right")
        """[frames] how many tokens have arrived by each step."""
        self._step_of_count = np.searchsorted(self.arrived, np.arange(len(arrival_us) + 2), side="left")

    def step_of_count(self, count: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first step at which `count` tokens have arrived."""
        return self._step_of_count[np.minimum(count, len(self.arrival_us) + 1)]

    def step_of_eviction(self, rank: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first step at which the window has moved past the token of that rank."""
        return self.step_of_count(rank + self.window + 1)

    def step_of_time(self, us: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first step whose session time is at least `us`."""
        return np.searchsorted(self.step_us, us, side="left")


def _whole_steps(whole: pl.DataFrame, times: _Timeline) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[N] and [N]: the half-open steps over which each token's words are complete and begin in the window."""
    complete_us, oldest_rank = (whole[name].to_numpy() for name in WHOLE)
    return times.step_of_time(complete_us), times.step_of_eviction(oldest_rank)


def _distinct(
    changes: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The distinct entries of each line of `changes` [R, C] within [start, end): (line, step), in order."""
    np.maximum(changes, start[:, None], out=changes)
    changes.sort(axis=1)
    new = np.empty(changes.shape, bool)
    new[:, 0] = True
    np.not_equal(changes[:, 1:], changes[:, :-1], out=new[:, 1:])
    new &= changes < end[:, None]
    return np.repeat(np.arange(len(changes), dtype=np.int32), new.sum(axis=1)), changes[new]


def shift_versions(versions: pl.DataFrame, prefix_frames: int) -> pl.DataFrame:
    """Call-relative versions after `prefix_frames` frames of prefix were put before the call.

    [s, e) becomes [s + P, e + P), except that s = 0 stays 0: every prefix frame reads the memory of the
    call's start (seeds/000, "Current sequence memory", section 9).
    """
    if prefix_frames < 0:
        raise ValueError(f"a prefix cannot have {prefix_frames} frames")
    start = pl.col("start")
    return versions.with_columns(
        pl.when(start == 0).then(0).otherwise(start + prefix_frames).cast(pl.Int32).alias("start"),
        (pl.col("end") + prefix_frames).cast(pl.Int32),
    )


def _log2(values: NDArray[np.int64], buckets: int) -> NDArray[np.uint8]:
    """min(buckets − 1, ⌊log2 value⌋), exact: frexp reads the exponent of integers below 2^53."""
    exponent = np.frexp(np.minimum(values, 2**buckets).astype(np.float64))[1]
    return np.minimum(exponent - 1, buckets - 1).astype(np.uint8)
