"""Branches of one past: what a memory would be had a result come later, never, or with something else in its place.

Everything before the moment of the branch stays as it is, to the version: so two runs have no causal reason to differ
before it (seeds/000, "The decisive counterfactual mid-call tool test"). A derived branch needs no new states, because
a token keeps the states that it was computed with, or takes those of another recording's token together with its bytes.
A result that says something else needs states of its own: that is a twin recording (`memory.twins`), which a store holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.memory.twins import PAIRS

DerivedKind = Literal["unchanged", "delayed", "absent", "irrelevant", "none"]
DERIVED: Final[tuple[DerivedKind, ...]] = ("unchanged", "delayed", "absent", "irrelevant", "none")
"""The same memory again; the result and all that follows it later; never; tokens of another recording's setup, caller
and requests in their place, as many and at the same times; and no memory at all from the moment of the branch on."""
TWIN_KINDS: Final = ("other", "delayed", "absent", "failed", "superseded")
"""What a twin recording can be of another: what its evidence says after the fork."""

NEVER_US: Final = 2**52
"""Added to an arrival that does not happen: beyond any session, and small enough that sums of times cannot overflow."""

BRANCH_PAIRS: Final[dict[str, pl.DataType]] = {**PAIRS, "kind": pl.String()}
"""Pairs with the kind of branch that the twin is. A derived branch has no recording and no call of its own: it is named
`CALL~KIND`, and belongs to the call's recording, family and split."""


@dataclass(frozen=True)
class BranchTokens:
    """The tokens of a branch, and where each one's states are: row `state_row` of its own recording (`foreign` false), or
    of the partner's. int64 and bool [N], in layout order. No step at or after `until_us`, session time, sees anything."""

    tokens: pl.DataFrame
    state_row: NDArray[np.int64]
    foreign: NDArray[np.bool_]
    until_us: int | None = None


def derive(
    kind: DerivedKind,
    tokens: pl.DataFrame,
    at_us: int,
    *,
    delay_us: int = 0,
    partner: pl.DataFrame | None = None,
) -> BranchTokens:
    """The branch of `tokens` (`memory.tables.TOKENS`, layout order) at session time `at_us`.

    `delay_us`: by how much later the result comes, of `delayed`. `partner`: the tokens of another recording, for
    `irrelevant`. Raises UsageError for a delay that is none, and for a partner that is lacking or empty.

    >>> tokens = pl.DataFrame({"arrival_us": [0, 5, 9], "bytes": [b"a", b"b", b"c"]})
    >>> derive("delayed", tokens, 5, delay_us=10).tokens["arrival_us"].to_list()
    [0, 15, 19]
    """
    own = np.arange(len(tokens), dtype=np.int64)
    foreign = np.zeros(len(tokens), bool)
    after = tokens["arrival_us"] >= at_us
    if kind in ("delayed", "absent"):
        if kind == "delayed" and delay_us <= 0:
            raise UsageError(f"a delayed result comes later, not by {delay_us} µs")
        later = NEVER_US if kind == "absent" else delay_us
        times = [name for name in ("arrival_us", "ready_us") if name in tokens.columns]
        moved = tokens.with_columns(
            pl.when(after).then(pl.col(name) + later).otherwise(pl.col(name)) for name in times
        )
        return BranchTokens(moved, own, foreign)
    if kind == "irrelevant":
        if partner is None or not len(partner):
            raise UsageError("irrelevant memory is that of another recording, and none is given")
        places = np.flatnonzero(after.to_numpy())
        chosen = np.resize(_unrelated(partner)[-len(places) :], len(places)) if len(places) else places
        return BranchTokens(
            _replaced(tokens, places, partner[chosen]), _put(own, places, chosen), after.to_numpy()
        )
    return BranchTokens(tokens, own, foreign, at_us if kind == "none" else None)


def _unrelated(tokens: pl.DataFrame) -> NDArray[np.int64]:
    """Rows, in order of arrival, that tell nothing of any result: of setup, caller and requests; all where there are none."""
    told = pl.col("kind").cast(pl.String).is_in(["thinking", "reply", "tool_result"])
    rows = tokens.with_row_index("at").sort("arrival_us", "at")
    idle = rows.filter(~told)
    return (idle if idle.height else rows)["at"].to_numpy().astype(np.int64)


def _replaced(tokens: pl.DataFrame, places: NDArray[np.int64], others: pl.DataFrame) -> pl.DataFrame:
    """`tokens` with what tokens say taken from `others` at `places`; their places and times stay."""
    stay = {
        "row",
        "call",
        "position",
        "arrival_us",
        "available_us",
        "ready_us",
        "source_us",
        "rank",
        "word_ix",
    }
    said = [name for name in tokens.columns if name not in stay and name in others.columns]
    both = pl.concat([tokens.select(said), others.select(said)])
    index = np.arange(len(tokens), dtype=np.int64)
    return tokens.with_columns(both[_put(index, places, len(tokens) + np.arange(len(places)))])


def _put(values: NDArray[np.int64], places: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64]:
    out = values.copy()
    out[places] = new
    return out


def shared_rows(
    tokens: pl.DataFrame, others: pl.DataFrame, fork_us: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Which rows of `others` the tokens of a twin are before their fork: row int64 [N] of `others` where shared bool [N],
    else the token's own row. Both in layout order."""
    place = ["call", "position"]
    theirs = others.select(place).with_row_index("other")
    joined = tokens.select(*place, "arrival_us").join(theirs, on=place, how="left", maintain_order="left")
    shared = ((joined["arrival_us"] < fork_us) & joined["other"].is_not_null()).to_numpy()
    own = np.arange(len(tokens), dtype=np.int64)
    return np.where(shared, joined["other"].fill_null(0).to_numpy().astype(np.int64), own), shared


def clip_versions(versions: pl.DataFrame, until_step: int) -> pl.DataFrame:
    """Versions without the steps from `until_step` on."""
    kept = versions.filter(pl.col("start") < until_step)
    return kept.with_columns(pl.min_horizontal("end", pl.lit(until_step, pl.Int32)).alias("end"))


def result_moments(calls: pl.DataFrame, evidence: pl.DataFrame) -> dict[str, int]:
    """Call → session time in µs at which its first result arrives; calls without one, or before which it came, are left out.

    `calls`: call_id, recording_starts_at_us. `evidence`: call_id and `store.format.EVIDENCE`.
    """
    results = evidence.filter(pl.col("kind").is_in(["tool_result", "tool_error"]), pl.col("arrival_us") > 0)
    first = results.group_by("call_id").agg(pl.col("arrival_us").min())
    both = calls.select("call_id", "recording_starts_at_us").drop_nulls().join(first, on="call_id")
    return {name: starts + arrival for name, starts, arrival in both.sort("call_id").iter_rows()}


def derived_pairs(calls: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """`BRANCH_PAIRS` of every call with a result and each of its derived branches."""
    moments = result_moments(calls, evidence)
    rows = [
        {
            "call_id": row["call_id"],
            "twin_call_id": f"{row['call_id']}~{kind}",
            "recording_id": row["recording_id"],
            "twin_recording_id": row["recording_id"],
            "fork_us": moments[row["call_id"]],
            "fork_frame": fork_frame(moments[row["call_id"]], row["recording_starts_at_us"]),
            "same_audio": True,
            "same_start": True,
            "kind": kind,
        }
        for row in calls.filter(pl.col("call_id").is_in(list(moments))).iter_rows(named=True)
        for kind in DERIVED
    ]
    return pl.DataFrame(rows, schema=BRANCH_PAIRS)


def branch_pairs(pairs: pl.DataFrame, calls: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """`BRANCH_PAIRS` of twins, `pairs` as `memory.twins.PAIRS`, and of derived branches; sorted by call and twin.

    A twin is listed for each of its two calls, so that every call has its branches.
    """
    starts = dict(calls.select("call_id", "recording_starts_at_us").iter_rows())
    turned = pairs.select(
        pl.col("twin_call_id").alias("call_id"),
        pl.col("call_id").alias("twin_call_id"),
        pl.col("twin_recording_id").alias("recording_id"),
        pl.col("recording_id").alias("twin_recording_id"),
        "fork_us",
        pl.Series("fork_frame", [0] * len(pairs), pl.Int64),
        "same_audio",
        "same_start",
    ).select(pairs.columns)
    rows = []
    of_call = evidence.partition_by("call_id", as_dict=True)
    nothing = evidence.clear()
    for row in pl.concat([pairs, turned]).iter_rows(named=True):
        ours, theirs = (of_call.get((row[name],), nothing) for name in ("call_id", "twin_call_id"))
        fork_us = row["fork_us"] - starts[row["call_id"]]
        row["fork_frame"] = fork_frame(row["fork_us"], starts[row["call_id"]])
        rows.append({**row, "kind": twin_kind(ours, theirs, fork_us)})
    twins = pl.DataFrame(rows, schema=BRANCH_PAIRS)
    return pl.concat([twins, derived_pairs(calls, evidence)]).sort("call_id", "twin_call_id")


def fork_frame(fork_us: int, starts_at_us: int) -> int:
    """The first frame of a call that can see what arrives at session time `fork_us`."""
    return max(0, -((starts_at_us - fork_us) // FRAME_US))


def twin_kind(evidence: pl.DataFrame, twin: pl.DataFrame, fork_us: int) -> str:
    """What a twin is of a call, one of TWIN_KINDS, by their evidence: `store.format.EVIDENCE`, times on the call's clock.

    `fork_us`: the fork on that clock. What cannot be told apart is `other`.
    """
    ours, theirs = (_results(table, fork_us) for table in (evidence, twin))
    if any(status == "failed" for status, _ in theirs.values()):
        return "failed"
    if twin.filter(pl.col("superseded_by").is_not_null(), pl.col("superseded_us") >= fork_us).height:
        return "superseded"
    return "absent" if ours and not theirs else "other"


def _results(evidence: pl.DataFrame, fork_us: int) -> Mapping[str, tuple[str, int]]:
    """Results that arrive at or after the fork: id → status, arrival."""
    after = evidence.filter(
        pl.col("kind").is_in(["tool_result", "tool_error"]), pl.col("arrival_us") >= fork_us
    )
    failed = pl.when(pl.col("kind") == "tool_error").then(pl.lit("failed")).otherwise(pl.col("status"))
    rows = after.select("evidence_id", failed.alias("status"), "arrival_us").iter_rows()
    return {name: (status, arrival) for name, status, arrival in rows}
