"""How the calls of a store are spoken: distributions of turn-taking, pace and padding, beside those of humans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from inkplex_data.audio.turns import HUMAN_GAP_MS, HUMAN_PAD_FRACTION, HUMAN_S_PER_MINUTE
from inkplex_data.clock import US_PER_S
from inkplex_data.store.call_groups import GROUPINGS, call_groups
from inkplex_data.store.reader import Store

STATISTICS: Final[dict[str, pl.DataType]] = {
    "measure": pl.String(),
    "unit": pl.String(),
    "over": pl.String(),
    "count": pl.Int64(),
    "mean": pl.Float64(),
    "p10": pl.Float64(),
    "p50": pl.Float64(),
    "p90": pl.Float64(),
    "human": pl.Float64(),
    "origin": pl.String(),
}
"""One row a measure. `origin`: of which calls (`call_groups`), null for all; each origin follows where any is known. `over` says of what the distribution is: `calls`, or the single `pauses`, `gaps`, `overlaps`
of all calls. `human` is the mean of people where a source gives one (`audio.turns` names the sources)."""

_PER_MINUTE = 60.0 * US_PER_S / pl.col("duration_us").cast(pl.Float64)
_PER_CALL: Final[dict[str, tuple[str, pl.Expr, float | None]]] = {
    "speech, both sides": (
        "s/min",
        60.0 * (pl.col("agent_speech_ratio") + pl.col("caller_speech_ratio")),
        HUMAN_S_PER_MINUTE["ipu"],
    ),
    "pause": ("s/min", pl.col("pause_s") * _PER_MINUTE, HUMAN_S_PER_MINUTE["pause"]),
    "gap": ("s/min", pl.col("gap_s") * _PER_MINUTE, HUMAN_S_PER_MINUTE["gap"]),
    "overlap": ("s/min", pl.col("overlap_s") * _PER_MINUTE, HUMAN_S_PER_MINUTE["overlap"]),
    "agent units": ("1/min", pl.col("turns_agent_ipus") * _PER_MINUTE, None),
    "caller units": ("1/min", pl.col("turns_caller_ipus") * _PER_MINUTE, None),
    "caller barge-ins": ("1/min", pl.col("barge_ins") * _PER_MINUTE, None),
    "agent barge-ins": ("1/min", pl.col("agent_barge_ins") * _PER_MINUTE, None),
    "backchannels": ("1/min", pl.col("backchannels") * _PER_MINUTE, None),
    "agent speech": ("share", pl.col("agent_speech_ratio"), None),
    "caller speech": ("share", pl.col("caller_speech_ratio"), None),
    "agent pace": ("words/min", pl.col("words_per_minute"), None),
    "text padding": ("share", pl.col("pad_fraction"), HUMAN_PAD_FRACTION),
    "memory": (
        "versions",
        pl.when(pl.col("recording_id").is_not_null()).then(pl.col("versions")),
        None,
    ),
}
_SINGLE: Final[dict[str, tuple[str, float | None]]] = {
    "pause length": ("pauses_ms", None),
    "gap length": ("gaps_ms", HUMAN_GAP_MS),
    "overlap length": ("overlaps_ms", None),
}


def call_statistics(calls: pl.DataFrame) -> pl.DataFrame:
    """`STATISTICS` of a calls table. Measures whose columns it lacks, or that no call has, are left out."""
    tables = [_measured(calls, None)]
    if set(GROUPINGS["origin"]) <= set(calls.columns):
        for (origin,), own in call_groups(calls, "origin").group_by("group", maintain_order=True):
            tables.append(_measured(calls.join(own, on="call_id", how="semi"), str(origin)))
    return pl.concat(tables)


@dataclass(frozen=True)
class Measured:
    """The values of one measure: float64 [n], without those that no call has. The rest as in `STATISTICS`."""

    measure: str
    unit: str
    over: str
    values: pl.Series
    human: float | None


def measured(calls: pl.DataFrame) -> Iterator[Measured]:
    """Every measure that the columns of a calls table allow and that a call has."""
    columns, found = set(calls.columns), []
    for measure, (unit, expression, human) in _PER_CALL.items():
        if set(expression.meta.root_names()) <= columns:
            values = calls.select(expression.alias("value"))["value"]
            found.append(Measured(measure, unit, "calls", values, human))
    for measure, (column, human) in _SINGLE.items():
        if column in columns:
            found.append(Measured(measure, "ms", column.removesuffix("_ms"), calls[column].explode(), human))
    for one in found:
        if len(real := one.values.cast(pl.Float64).drop_nulls().drop_nans()):
            yield replace(one, values=real)


def _measured(calls: pl.DataFrame, origin: str | None) -> pl.DataFrame:
    return pl.DataFrame(
        [
            (
                one.measure,
                one.unit,
                one.over,
                len(one.values),
                one.values.mean(),
                *_quantiles(one.values),
                one.human,
                origin,
            )
            for one in measured(calls)
        ],
        schema=STATISTICS,
        orient="row",
    )


def _quantiles(values: pl.Series) -> tuple[float | None, float | None, float | None]:
    low, middle, high = (values.quantile(part, "linear") for part in (0.1, 0.5, 0.9))
    return low, middle, high


def store_statistics(store: Store, *, split: str | None = None) -> pl.DataFrame:
    """`STATISTICS` of a store's calls, of one split where `split` names it.

    Lengths come from levels of 10 ms, so they are near but not equal to those of a trained detector.
    """
    calls = store.calls()
    if split is not None:
        calls = calls.filter(pl.col("split") == split)
    return call_statistics(calls.collect())
