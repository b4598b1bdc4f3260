"""Rows that no model computes: zero throughout, or one token's triple again as that of another token.

Both are what faulty writers of arrays leave: chunks that were never written, or written in two places. Every layer
sees the token itself, so two different tokens cannot agree in all bits of rows 28, 34 and 42. Equal tokens may: a prompt
that two requests computed has the same states twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inkplex_data.errors import RecordingError
from inkplex_data.grid import STATE_ROWS
from inkplex_data.memory.ownership import Request
from inkplex_data.problems import recording_refusal

ZERO, REPEATED = "recording-states-zero", "recording-states-repeated"
_SIGN = np.uint16(0x7FFF)


class FileOfStates(Protocol):
    """A file that states are read from, a request's rows in order."""

    @property
    def path(self) -> Path: ...
    @property
    def where(self) -> str: ...
    def blocks(self) -> Iterator[NDArray[np.uint16]]: ...


@dataclass(frozen=True)
class _Seen:
    """Where a triple stood first: its token and, for messages, the file and row."""

    token: int
    file: str
    row: int


@dataclass
class _Run:
    """Consecutive faulty rows of a file."""

    first: int
    last: int
    why: str


@dataclass
class PlausibleStates:
    """Passes the states of a recording on, file by file, and refuses what no model computes.

    Keeps sixteen bytes a token, so that a triple is known again however far away it stood.
    """

    _seen: dict[bytes, _Seen] = field(default_factory=dict)

    def blocks(self, file: FileOfStates, request: Request) -> Iterator[NDArray[np.uint16]]:
        """`file.blocks()`, uint16 [k, 3, D] each: the states of the tokens of `request`.

        Raises RecordingError: what `file.blocks` raises, and at the end of the first run of faulty rows
        recording-states-zero or recording-states-repeated with its range.
        """
        tokens = _identities(request)
        zero, repeated = _Runs(ZERO, file), _Runs(REPEATED, file)
        first = 0
        for block in file.blocks():
            zero.add(first, self._zeros(block))
            repeated.add(first, self._repeats(block, tokens[first : first + len(block)], file, first))
            yield block
            first += len(block)
        zero.add(first, [None])
        repeated.add(first, [None])

    def _zeros(self, block: NDArray[np.uint16]) -> Iterable[str | None]:
        for triple in ((block & _SIGN) == 0).all(axis=2):
            rows = [str(STATE_ROWS[index]) for index in np.flatnonzero(triple)]
            yield f"row{'s' * (len(rows) > 1)} {', '.join(rows)}" if rows else None

    def _repeats(
        self, block: NDArray[np.uint16], tokens: NDArray[np.int64], file: FileOfStates, first: int
    ) -> Iterable[str | None]:
        for row, (triple, token) in enumerate(zip(block, tokens.tolist(), strict=True), start=first):
            key = hashlib.blake2b(np.ascontiguousarray(triple).data, digest_size=16).digest()
            seen = self._seen.setdefault(key, _Seen(token, file.path.name, row))
            yield f"token {seen.row} of {seen.file}" if seen.token != token else None


@dataclass
class _Runs:
    """Joins consecutive faulty rows and refuses at the end of the first such run."""

    code: str
    file: FileOfStates
    run: _Run | None = None

    def add(self, first: int, faults: Iterable[str | None]) -> None:
        for row, why in enumerate(faults, start=first):
            if why is None and self.run is not None:
                raise self._refusal(self.run)
            if why is not None:
                self.run = self.run or _Run(row, row, why)
                self.run.last = row

    def _refusal(self, run: _Run) -> RecordingError:
        many = run.last > run.first
        tokens = f"tokens {run.first} to {run.last}" if many else f"token {run.first}"
        what = f"zero throughout, in {run.why}" if self.code == ZERO else f"bit for bit, from {run.why} on"
        if self.code == REPEATED:
            what = f"those of other tokens, {what}"
        return recording_refusal(self.code, f"the states of {tokens} are {what}", self.file.where)


def _identities(request: Request) -> NDArray[np.int64]:
    """What tells the tokens of a request apart, int64 [n]: the id, or for media, of one id, the position."""
    start = request.cached[1] if request.cached is not None else 0
    positions = start + np.arange(len(request.ids), dtype=np.int64)
    return np.where(request.media > 0, -1 - positions, request.ids)
