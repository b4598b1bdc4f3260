"""Audit of stored states: the digests that were taken when they were made, rows that no model computes, and twins.

Rule: seeds/000, "Current sequence memory", section 3. A row triple is what the model computed for one token in its
context, so two tokens of one recording differ in it, and twins have the same states before their fork.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.audit.stored_requests import request_rows
from inkplex_data.errors import CausalityError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.capture.state_bits import first_not_finite

States = NDArray[np.uint16]
ReadRows = Callable[[int, int], States]
"""Rows [first, end) of one recording's states, uint16 [n, 3, D]."""

BLOCK_ROWS: Final = 256
FAR: Final = 0.5
"""Of a row's norm. Rounding, and experts that flip where a context was cut elsewhere, stay below; another token's row,
or one of another model, is about √2 away."""
_SIGN: Final = np.uint16(0x7FFF)


def audit_states(
    tokens: pl.DataFrame, read: ReadRows, digests: Sequence[Mapping[str, Any]] | None, *, recording_id: str
) -> None:
    """Prove that a recording's states are finite, nowhere zero, of one token each, and those that were made.

    `digests`: the column `state_digests` of the recordings table, None where an earlier version wrote none.
    Raises CausalityError naming the token's row.
    """
    listed = None if digests is None else [(one["request"], one["rows"], one["sha256"]) for one in digests]
    requests = request_rows(tokens)
    if listed is not None and [(one, rows) for one, rows, _ in listed] != [
        (one, stop - first) for one, first, stop in requests
    ]:
        raise CausalityError("its digests of states are not those of its requests", where=recording_id)
    identity = _identities(tokens)
    seen: dict[bytes, tuple[int, int]] = {}
    for index, (number, first, stop) in enumerate(requests):
        digest = hashlib.sha256()
        for start, block in _blocks(read, first, stop):
            digest.update(np.ascontiguousarray(block, "<u2").data)
            for row, what in _implausible(start, block, identity, seen):
                raise CausalityError(f"token row {row} has states {what}", where=recording_id)
        if listed is not None and digest.hexdigest() != listed[index][2]:
            raise CausalityError(
                f"the states of request {number} (token rows {first} to {stop - 1}) are not those that were made for it",
                where=recording_id,
            )


def audit_twin_states(
    ours: tuple[pl.DataFrame, ReadRows], theirs: tuple[pl.DataFrame, ReadRows], *, fork_us: int, twin: str
) -> None:
    """Prove that what two recordings have in common before their fork has the same states, up to rounding.

    Raises CausalityError naming the token's row.
    """
    place = ["call", "position"]
    tables = [
        table.filter(pl.col("arrival_us") < fork_us).select(*place, "row") for table, _ in (ours, theirs)
    ]
    rows = tables[0].join(tables[1], on=place, how="inner", suffix="_twin").sort(place)
    pairs = rows.select("row", "row_twin").to_numpy()
    for start in range(0, len(pairs), BLOCK_ROWS):
        own, other = pairs[start : start + BLOCK_ROWS].T
        apart = distance(_rows(ours[1], own), _rows(theirs[1], other))
        bad = np.flatnonzero(apart > FAR)
        if len(bad):
            at = int(bad[0])
            raise CausalityError(
                f"token row {own[at]} has other states than row {other[at]} of {twin!r}, from which it differs only "
                f"after {fork_us} µs"
            )


def distance(one: States, other: States) -> NDArray[np.float64]:
    """[n] how far two stacks of states [n, 3, D] are apart: the largest of the three rows, in parts of its norm."""
    apart: NDArray[np.float64] = row_distances(one, other).max(axis=1)
    return apart


def row_distances(one: States, other: States) -> NDArray[np.float64]:
    """[n, 3] the same for each of the three rows."""
    a, b = (_values(states) for states in (one, other))
    size = np.maximum(np.linalg.norm(a, axis=2), np.linalg.norm(b, axis=2))
    apart: NDArray[np.float64] = np.linalg.norm(a - b, axis=2) / np.maximum(size, 1e-30)
    return apart


def _blocks(read: ReadRows, first: int, stop: int) -> Iterator[tuple[int, States]]:
    for start in range(first, stop, BLOCK_ROWS):
        yield start, read(start, min(start + BLOCK_ROWS, stop))


def _rows(read: ReadRows, rows: NDArray[np.int64]) -> States:
    """Ascending rows, read as one stretch where that is what they are."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first < 2 * len(rows):
        return read(first, last + 1)[rows - first]
    return np.concatenate([read(row, row + 1) for row in rows.tolist()])


def _implausible(
    first: int, block: States, identity: NDArray[np.int64], seen: dict[bytes, tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    bad = first_not_finite(block)
    if bad is not None:
        yield first + bad, "that are not finite"
    for at, layer in np.argwhere(((block & _SIGN) == 0).all(axis=2))[:1].tolist():
        yield first + at, f"that are zero throughout, in row {STATE_ROWS[layer]}"
    for row, triple in enumerate(block, start=first):
        key = hashlib.blake2b(np.ascontiguousarray(triple).data, digest_size=16).digest()
        other, token = seen.setdefault(key, (row, int(identity[row])))
        if token != identity[row]:
            yield row, f"that are those of row {other}, which is another token"


def _identities(tokens: pl.DataFrame) -> NDArray[np.int64]:
    """What tells the tokens apart, int64 [n]: the id, or for media, of one id, the position."""
    ids, position = (tokens[name].to_numpy().astype(np.int64) for name in ("token_id", "position"))
    return np.where(tokens["media"].is_not_null().to_numpy(), -1 - position, ids)


def _values(states: States) -> NDArray[np.float64]:
    """bfloat16 bits as numbers."""
    return (states.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
