"""What of a Polars predicate can be decided before anything is read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce

import polars as pl


def conjuncts(predicate: pl.Expr) -> Iterator[pl.Expr]:
    """The parts of `a & b & …`, each of which a row must satisfy."""
    parts = predicate.meta.pop()
    if len(parts) == 2:
        first, second = parts
        for left, right in ((first, second), (second, first)):
            if (left & right).meta.eq(predicate):
                yield from conjuncts(left)
                yield from conjuncts(right)
                return
    yield predicate


def decidable(predicate: pl.Expr | None, columns: Collection[str]) -> pl.Expr | None:
    """The conjunction of the parts of `predicate` that use none but `columns`, or None if there is none.

    Polars hands a source only predicates that look at one row at a time, so such a part may be
    evaluated on any table that has one row for each group of rows equal in `columns`.
    """
    if predicate is None:
        return None
    inside = [
        p for p in conjuncts(predicate) if p.meta.root_names() and set(p.meta.root_names()) <= set(columns)
    ]
    return reduce(lambda a, b: a & b, inside) if inside else None


def needed_columns(
    with_columns: Sequence[str] | None, predicate: pl.Expr | None, schema: Collection[str]
) -> list[str]:
    """Columns to read: those asked for and those that the predicate uses, in the schema's order."""
    wanted = set(schema if with_columns is None else with_columns)
    if predicate is not None:
        wanted |= set(predicate.meta.root_names())
    return [name for name in schema if name in wanted]


def row_batches(
    shards: Sequence[int], offsets: Sequence[int], counts: Sequence[int], *, limit: int
) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of owners whose rows lie one after the other in one shard, of about `limit` rows.

    A run ends where the next owner is elsewhere or would exceed the limit; one larger owner is its own run.
    """
    first, rows = 0, 0
    for i in range(len(shards)):
        joined = i > first and shards[i] == shards[i - 1] and offsets[i] == offsets[i - 1] + counts[i - 1]
        if i > first and not (joined and rows + counts[i] <= limit):
            yield first, i
            first, rows = i, 0
        rows += counts[i]
    if first < len(shards):
        yield first, len(shards)
