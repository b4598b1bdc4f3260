"""Calls told apart by what their sidecars say: who made their sound, and what their targets teach.

Recorded and synthetic audio are reported apart (seeds/000, "Smallest meaningful evaluation").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import polars as pl

from inkplex_data.errors import UsageError

CallFilter = Mapping[str, str | Collection[str]]
"""Column → the value or values of it that a call must have one of, in a list at least once."""

TOLD: Final = ("agent_origin", "caller_origin", "decisions", "target_statuses", "target_writers")
"""Columns of the calls table that calls can be chosen by."""

GROUPINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "origin": ("agent_origin", "caller_origin"),
    "decision": ("decisions",),
    "status": ("target_statuses",),
    "writer": ("target_writers",),
}
"""By what figures are given apart, and the columns that say it."""

UNKNOWN: Final = "unknown"


def call_groups(calls: pl.DataFrame, by: str) -> pl.DataFrame:
    """call_id, group: the groups that each call is in under a grouping. `calls` has `call_id` and the columns of TOLD.

    An origin is `AGENT, CALLER`. A call with several targets is in the group of each; one of which nothing is known is
    in none, and so is every call where nothing is known of any.
    """
    columns = GROUPINGS[by]
    if by != "origin":
        found = calls.select("call_id", group=pl.col(columns[0])).explode("group").drop_nulls().unique()
    else:
        known = calls.filter(pl.any_horizontal(pl.col(columns).is_not_null()))
        label = pl.concat_str([pl.col(name).fill_null(UNKNOWN) for name in columns], separator=", ")
        found = known.select("call_id", group=label)
    return found.sort("group", "call_id")


def check_filter(only: CallFilter) -> None:
    """Raises UsageError for a column by which calls cannot be chosen."""
    for column in only:
        if column not in TOLD:
            raise UsageError(
                f"calls cannot be chosen by {column!r}", next_step=f"Name one of {', '.join(TOLD)}."
            )


def parse_filter(texts: Iterable[str]) -> CallFilter:
    """A filter of `COLUMN=VALUE` texts; values of one column are alternatives. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        column, is_given, value = text.partition("=")
        if not is_given:
            raise UsageError(
                f"{text!r} is no COLUMN=VALUE", next_step="Write, for instance, decisions=speak."
            )
        found.setdefault(column, []).append(value)
    check_filter(found)
    return found


def chosen(calls: pl.DataFrame, only: CallFilter) -> pl.DataFrame:
    """The calls that every entry of `only` lets through. Raises UsageError as `check_filter`."""
    check_filter(only)
    for column, wanted in only.items():
        values = [wanted] if isinstance(wanted, str) else list(wanted)
        if calls.schema[column] == pl.String():
            calls = calls.filter(pl.col(column).is_in(values))
        else:
            calls = calls.filter(pl.col(column).list.eval(pl.element().is_in(values)).list.any())
    return calls
