"""The requests of a recording as the store has them: its tokens, and its prefix chain.

With both, everything that a recording's file said of its requests can be asked again: whether positions follow each
other through the chain, and what a model needs to compute the states once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import UNKNOWN_US
from inkplex_data.errors import CausalityError, RecordingError
from inkplex_data.grid import KINDS, MEDIA
from inkplex_data.memory.ownership import Ownership
from inkplex_data.store.documents import parse_value


@dataclass(frozen=True)
class StoredRequest:
    """One request, as `memory.ownership.ClockedRequest` has it; `line` counts the requests of the chain."""

    call: int
    cached: tuple[int, int] | None
    tokens: pl.DataFrame
    line: int

    @property
    def ids(self) -> NDArray[np.int32]:
        return self.tokens["token_id"].to_numpy()

    @property
    def kinds(self) -> NDArray[np.uint8]:
        return _index(self.tokens["kind"], KINDS)

    @property
    def bytes(self) -> Sequence[bytes]:
        return self.tokens["bytes"].to_list()

    @property
    def arrival_us(self) -> NDArray[np.int64]:
        return self.tokens["arrival_us"].to_numpy()

    @property
    def available_us(self) -> NDArray[np.int64]:
        return self.tokens["available_us"].fill_null(self.tokens["arrival_us"]).to_numpy()

    @property
    def ready_us(self) -> NDArray[np.int64]:
        return self.tokens["ready_us"].fill_null(UNKNOWN_US).to_numpy()

    @property
    def source_us(self) -> NDArray[np.int64]:
        return self.tokens["source_us"].fill_null(UNKNOWN_US).to_numpy()

    @property
    def special(self) -> NDArray[np.bool_]:
        return self.tokens["special"].to_numpy()

    @property
    def media(self) -> NDArray[np.uint8]:
        return _index(self.tokens["media"], (None, *MEDIA))


def stored_requests(tokens: pl.DataFrame, chain: str | None, *, recording_id: str) -> list[StoredRequest]:
    """The requests of a tokens table, in the order of their numbers.

    `chain`: the column `requests` of the recordings table; None where an earlier version wrote none, and then a prefix
    is one of an earlier request whose context is long enough, the last of them.
    Raises CausalityError where tokens and chain are not of one recording.
    """

    def refuse(what: str) -> CausalityError:
        return CausalityError(what, where=recording_id)

    by_number = {key[0]: part for key, part in tokens.group_by("call", maintain_order=True)}
    listed = parse_value(chain, where=recording_id) if chain is not None else list(_guessed(by_number))
    strangers = by_number.keys() - {number for number, _, _ in listed}
    if strangers:
        raise refuse(f"it has tokens of request {min(strangers)}, which its prefix chain does not list")
    requests = []
    for line, (number, owner, count) in enumerate(listed, start=1):
        own = by_number.get(number, tokens.clear())
        if own.height and own["position"][0] != count:
            raise refuse(
                f"request {number} begins at position {own['position'][0]}, after a prefix of {count} tokens"
            )
        requests.append(StoredRequest(number, None if owner is None else (owner, count), own, line))
    return requests


def audit_chain(tokens: pl.DataFrame, chain: str | None, *, recording_id: str) -> None:
    """Prove that every request's positions go on from a prefix that was there, and had arrived.

    Raises CausalityError.
    """
    try:
        Ownership(stored_requests(tokens, chain, recording_id=recording_id), source=recording_id)
    except RecordingError as error:
        raise CausalityError(error.what, where=recording_id) from error


def _guessed(by_number: dict[Any, pl.DataFrame]) -> Iterator[tuple[int, int | None, int]]:
    ends: list[tuple[int, int]] = []
    for number, own in by_number.items():
        first, last = own["position"][0], own["position"][-1]
        owners = [owner for owner, end in ends if end >= first]
        yield number, (owners[-1] if first and owners else None), (first if owners else 0)
        ends.append((number, last + 1))


def request_rows(tokens: pl.DataFrame) -> list[tuple[int, int, int]]:
    """(request, first row, end row) of every request that computed tokens, in layout order."""
    number = tokens["call"].to_numpy()
    edges = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist(), len(number)]
    return [(int(number[first]), first, stop) for first, stop in pairwise(edges) if stop > first]


def _index(column: pl.Series, names: Sequence[str | None]) -> NDArray[np.uint8]:
    return np.array([names.index(name) for name in column.to_list()], np.uint8)
