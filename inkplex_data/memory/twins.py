"""Counterfactual twins: recordings that are one until a moment and differ after it (`branch_of`).

They let an evaluation ask the same question with different evidence. Two calls form a pair when their
recordings are twins, directly or through common ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import polars as pl

from inkplex_data.clock import FRAME_US
from inkplex_data.problems import recording_refusal

COMPARED = ("arrival_us", "call", "position", "token_id", "kind", "bytes", "special", "media")

PAIRS: dict[str, pl.DataType] = {
    "call_id": pl.String(),
    "twin_call_id": pl.String(),
    "recording_id": pl.String(),
    "twin_recording_id": pl.String(),
    "fork_us": pl.Int64(),
    "fork_frame": pl.Int64(),
    "same_audio": pl.Boolean(),
    "same_start": pl.Boolean(),
}
"""`fork_frame` is the first frame of the call that can see what differs: 0 where it differs from the
start, and not below the call's frames where the call ends before the fork."""


def check_twins(tokens: pl.DataFrame, twin: pl.DataFrame, *, at_us: int, names: tuple[str, str]) -> int:
    """Prove that two token tables hold the same tokens before `at_us`; returns how many.

    `names` are the recordings of `tokens` and `twin`. Raises RecordingError naming the first token in
    arrival order that is not in both, with both places.
    """
    ours, theirs = (_before(table, at_us) for table in (tokens, twin))
    if ours.equals(theirs):
        return len(ours)
    first = next(
        (at for at, (a, b) in enumerate(zip(ours.iter_rows(), theirs.iter_rows(), strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    places = [f"{name} has {_place(table, first)}" for name, table in zip(names, (ours, theirs), strict=True)]
    raise recording_refusal(
        "recording-twin-differs",
        f"they fork at {at_us} µs but differ before it, at token {first} in order of arrival: {'; '.join(places)}",
        f"{names[1]} ← {names[0]}",
    )


def _before(tokens: pl.DataFrame, at_us: int) -> pl.DataFrame:
    table = tokens.filter(pl.col("arrival_us") < at_us)
    if "media" not in table.columns:
        table = table.with_columns(media=pl.lit(None, pl.String))
    return (
        table.select(
            pl.col("arrival_us").cast(pl.Int64),
            pl.col("call", "position", "token_id").cast(pl.Int64),
            pl.col("kind", "media").cast(pl.String),
            pl.col("bytes").fill_null(b""),
            "special",
        )
        .select(COMPARED)
        .sort("arrival_us", "call", "position")
    )


def _place(tokens: pl.DataFrame, at: int) -> str:
    if at >= len(tokens):
        return "no further token"
    arrival_us, request, position, token_id, kind, spelled, *_ = tokens.row(at)
    return f"request {request} position {position} ({kind} id {token_id} {spelled!r}) at {arrival_us} µs"


def fork_between(branches: Mapping[str, tuple[str, int]], one: str, other: str) -> int | None:
    """The moment in µs until which two recordings are the same; None where they have no common ancestor.

    `branches` maps a recording to (the recording that it branches from, the fork in µs).
    """
    forks = _forks(branches, one)
    at_us: int | None = None
    seen: set[str] = set()
    while other not in forks:
        if other not in branches or other in seen:
            return None
        seen.add(other)
        other, fork_us = branches[other]
        at_us = fork_us if at_us is None else min(at_us, fork_us)
    ours = forks[other]
    return min((us for us in (at_us, ours) if us is not None), default=None)


def _forks(branches: Mapping[str, tuple[str, int]], recording: str) -> dict[str, int | None]:
    """Every ancestor of `recording`, itself included, with the earliest fork on the way to it."""
    found: dict[str, int | None] = {recording: None}
    earliest: int | None = None
    while recording in branches and branches[recording][0] not in found:
        recording, fork_us = branches[recording]
        earliest = fork_us if earliest is None else min(earliest, fork_us)
        found[recording] = earliest
    return found


def root_of(branches: Mapping[str, tuple[str, int]], recording: str) -> str:
    """The oldest ancestor of `recording`: recordings with the same one are twins."""
    return list(_forks(branches, recording))[-1]


def twin_recordings(
    branches: Mapping[str, tuple[str, int]], recordings: Iterable[str]
) -> Iterator[tuple[str, str, int]]:
    """(recording, twin, fork in µs) of all pairs in `recordings` that have a common past, in their order."""
    families: dict[str, list[str]] = {}
    for recording in recordings:
        families.setdefault(root_of(branches, recording), []).append(recording)
    for family in families.values():
        for one, other in combinations(family, 2):
            if (fork_us := fork_between(branches, one, other)) is not None:
                yield one, other, fork_us


def counterfactual_pairs(calls: pl.DataFrame, branches: Mapping[str, tuple[str, int]]) -> pl.DataFrame:
    """Pairs of calls on twin recordings, each pair once; columns of `PAIRS`, sorted by call_id, twin_call_id.

    `calls`: call_id, recording_id, recording_starts_at_us, and audio_sha256 where it is known. Two calls
    form a pair when they are the same recorded conversation (`same_audio`: the same question in the same
    words) or begin at the same session time (`same_start`); where both hold they differ in nothing but
    the evidence after the fork.
    """
    with_memory = calls.filter(pl.col("recording_id").is_not_null())
    twins = pl.DataFrame(
        list(twin_recordings(branches, with_memory["recording_id"].unique().sort())),
        schema={"recording_id": pl.String, "twin_recording_id": pl.String, "fork_us": pl.Int64},
        orient="row",
    )
    audio = pl.col("audio_sha256") if "audio_sha256" in calls.columns else pl.lit(None, pl.String)
    side = with_memory.select(
        "call_id", "recording_id", "recording_starts_at_us", audio.alias("audio_sha256")
    )
    pairs = side.join(twins, on="recording_id").join(
        side.rename({"recording_id": "twin_recording_id"}), on="twin_recording_id", suffix="_twin"
    )
    start_us = pl.col("recording_starts_at_us")
    # Frames before the fork read session times below it: the first that does not is the ceiling.
    since_us = (pl.col("fork_us") - start_us).clip(lower_bound=0)
    return (
        pairs.with_columns(
            twin_call_id=pl.col("call_id_twin"),
            fork_frame=(since_us + FRAME_US - 1) // FRAME_US,
            same_audio=(pl.col("audio_sha256") == pl.col("audio_sha256_twin")).fill_null(False),
            same_start=start_us == pl.col("recording_starts_at_us_twin"),
        )
        .filter(pl.col("same_audio") | pl.col("same_start"))
        .select(pl.col(name).cast(dtype) for name, dtype in PAIRS.items())
        .sort("call_id", "twin_call_id")
    )
