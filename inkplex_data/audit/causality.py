"""Proof that a call's versions show what had arrived, all of it that is live, and nothing else.

Another route than `versions.build_versions`: a walk over the steps. At each step a pointer into the
tokens by arrival says which are live and what each one's state must be, the versions say what each one's
state is, and the two are compared token by token. Words are read again, token after token, and at each step
the list of permitted updates is asked anew. Shared with the builder are only the clock and the two orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import US_PER_S
from inkplex_data.errors import CausalityError
from inkplex_data.grid import WINDOW
from inkplex_data.memory.token_order import arrival_order, in_layout_order
from inkplex_data.memory.versions import SessionClock

_ABSENT = np.int16(-1)
_NEVER = np.iinfo(np.int64).max
_BLANKS = re.compile(rb"[\x09-\x0d\x20]+")
_AGE_LIMITS_US = np.array([(2**bucket - 1) * US_PER_S for bucket in range(1, 15)])

_AGES = np.array(range(14, -1, -1), np.int16)


@dataclass(frozen=True)
class Audited:
    """What a clean audit looked at."""

    steps: int
    tokens: int
    versions: int
    comparisons: int
    """Live tokens summed over the steps: each was compared once."""


@dataclass(frozen=True)
class Permission:
    """Rows [start, stop) are of an update that may be read in `intervals` of session time, an end of None being never.

    An update that the sidecar's list of permitted updates does not name has no interval.
    """

    start: int
    stop: int
    intervals: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class DatedTokens:
    """What a sidecar dates: the tokens of rows [start, stop) carry `name`, which is available from `available_us` on."""

    name: str
    start: int
    stop: int
    available_us: int


class ArrivedTokens:
    """A recording's tokens in order of arrival, and when the words of each are complete: the same for every call.

    `tokens`: the columns that `build_versions` takes, in any order; where it has `row` and `rank`, they are
    checked by `audit_versions`. `order` int64 [N] are the rows in order of arrival, `rank` the inverse. In
    order of arrival are `arrived_us`, `complete_us` (when all words that a token touches are complete) and
    `oldest` (the lowest rank at which one of them begins), all int64 [N]. `parts` int64 [P, 2] are (word, row) of
    every token that spells a word, `completers` int64 [W] the row that completes each.
    """

    def __init__(self, tokens: pl.DataFrame) -> None:
        self.table = in_layout_order(tokens)
        arrival_us = self.table["arrival_us"].to_numpy()
        self.order = arrival_order(arrival_us)
        self.arrived_us = arrival_us[self.order]
        self.rank = np.empty(len(tokens), np.int64)
        self.rank[self.order] = np.arange(len(tokens))
        complete_us, oldest, self.parts, self.completers = _read_words(self.table, arrival_us, self.rank)
        self.complete_us, self.oldest = complete_us[self.order], oldest[self.order]

    def __len__(self) -> int:
        return len(self.table)


def audit_versions(
    tokens: pl.DataFrame | ArrivedTokens,
    clock: SessionClock,
    versions: pl.DataFrame,
    *,
    window: int = WINDOW,
    call_id: str = "call",
    permissions: Sequence[Permission] | None = None,
) -> Audited:
    """Prove one call's versions against its recording's tokens.

    `tokens`: a table as `ArrivedTokens` takes it, or that, where several calls are audited. `versions`:
    row, start, end, recency, age, whole, in any order. `permissions`: of every update of the call's sidecar, None
    where it has no list of them. Proves, for every step and token: nothing before its arrival, nothing after its
    eviction, nothing while each update that it is of is withheld, at most one version, every other live token
    covered, right buckets, whole exactly when its words are complete, begin in the window, and are of no token that
    is withheld; steps of the prefix read the memory of the call's start.

    Raises CausalityError for the first violation, naming the call, the token's row, the step, the
    step's session time and the time that it contradicts.
    """
    tokens = tokens if isinstance(tokens, ArrivedTokens) else ArrivedTokens(tokens)
    walk = _Walk(tokens, clock, window, call_id, permissions)
    row, start, end = (versions[name].to_numpy().astype(np.int64) for name in ("row", "start", "end"))
    state = _state(*(versions[name].to_numpy().astype(np.int16) for name in ("recency", "age", "whole")))
    walk.check_intervals(row, start, end)
    by_start, by_end = np.argsort(start, kind="stable"), np.argsort(end, kind="stable")
    steps = np.arange(clock.frames + 1)
    started, ended = np.searchsorted(start[by_start], steps), np.searchsorted(end[by_end], steps)
    # Tokens stand in order of arrival here, in which the live ones lie next to each other.
    place = tokens.rank[row]
    shown = np.full(len(tokens), _ABSENT)
    for step in range(clock.frames):
        shown[place[by_end[ended[step] : ended[step + 1]]]] = _ABSENT
        come = by_start[started[step] : started[step + 1]]
        shown[place[come]] = state[come]
        walk.compare(step, shown, int(started[step + 1] - ended[step + 1]))
    return Audited(clock.frames, len(tokens), len(versions), walk.comparisons)


def audit_evidence(tokens: pl.DataFrame, evidence: Iterable[DatedTokens], *, call_id: str = "call") -> None:
    """Prove that no token of an update or a piece of evidence arrives before that became available.

    Raises CausalityError naming the call, the item, the token's row and both times.
    """
    tokens = in_layout_order(tokens)
    arrival_us = tokens["arrival_us"].to_numpy()
    for item in evidence:
        if not 0 <= item.start <= item.stop <= len(arrival_us):
            what = f"{item.name} names rows {item.start} to {item.stop} of a recording of {len(arrival_us)} tokens"
            raise CausalityError(what, where=call_id)
        early = np.flatnonzero(arrival_us[item.start : item.stop] < item.available_us)
        if len(early):
            row = item.start + int(early[0])
            what = (
                f"{item.name}: token row {row} arrives at {arrival_us[row]} µs, before the item was "
                f"available at {item.available_us} µs"
            )
            raise CausalityError(what, where=call_id)


class _Walk:
    """What each step of a call must show of the tokens."""

    def __init__(
        self,
        tokens: ArrivedTokens,
        clock: SessionClock,
        window: int,
        call_id: str,
        permissions: Sequence[Permission] | None,
    ) -> None:
        self.tokens, self.clock, self.window, self.call_id = tokens, clock, window, call_id
        self.permissions = permissions
        self._intervals = np.array(
            [
                (index, begin, _NEVER if end is None else end)
                for index, permission in enumerate(permissions or ())
                for begin, end in permission.intervals
            ],
            np.int64,
        ).reshape(-1, 3)
        self._open: NDArray[np.bool_] | None = None
        self._withheld = self._not_whole = np.zeros(len(tokens), bool)
        self._check_stored_order()
        # Bucket of 1, 2, 3, … tokens since; the entry of zero is never read.
        self.recency = np.zeros(len(tokens) + 1, np.int16)
        for bucket in range(17):
            self.recency[2**bucket :] = bucket
        self.comparisons = 0

    def check_intervals(
        self, row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> None:
        """Versions lie within the call and the recording, and no token has two at one step."""
        bad = np.flatnonzero((row < 0) | (row >= len(self.tokens)))
        if len(bad):
            at = int(bad[0])
            what = f"version {at} is of token row {row[at]}, but the recording has {len(self.tokens)} tokens"
            raise CausalityError(what, where=self.call_id)
        bad = np.flatnonzero((start < 0) | (start >= end) | (end > self.clock.frames))
        if len(bad):
            at = int(bad[0])
            what = f"token row {row[at]} has a version [{start[at]}, {end[at]}) in {self.clock.frames} steps"
            raise CausalityError(what, where=self.call_id)
        order = np.lexsort((start, row))
        same = row[order[1:]] == row[order[:-1]]
        overlap = np.flatnonzero(same & (start[order[1:]] < end[order[:-1]]))
        if len(overlap):
            at = int(order[overlap[np.argmin(start[order[overlap + 1]])] + 1])
            self._fail(int(start[at]), int(self.tokens.rank[row[at]]), "has two versions")

    def compare(self, step: int, shown: NDArray[np.int16], visible: int) -> None:
        """What `step` shows, one state per token in order of arrival, against what it must show."""
        now_us = self.clock.session_us(step)
        newest = int(np.searchsorted(self.tokens.arrived_us, now_us, side="right"))
        oldest = max(0, newest - self.window)
        live = slice(oldest, newest)
        recency = self.recency[newest - oldest : 0 : -1]
        passed = np.searchsorted(self.tokens.arrived_us, now_us - _AGE_LIMITS_US, side="right").clip(
            oldest, newest
        )
        age = np.repeat(_AGES, np.diff(passed[::-1], prepend=oldest, append=newest))
        self._read_permissions(now_us)
        whole = (self.tokens.complete_us[live] <= now_us) & (self.tokens.oldest[live] >= oldest)
        expected = _state(recency, age, (whole & ~self._not_whole[live]).astype(np.int16))
        expected[self._withheld[live]] = _ABSENT
        self.comparisons += newest - oldest
        if visible == np.count_nonzero(expected != _ABSENT) and np.array_equal(shown[live], expected):
            return
        self._explain(step, shown, expected, live)

    def _read_permissions(self, now_us: int) -> None:
        """Which tokens, in order of arrival, a frame of now must not see, and which it must not see whole."""
        if self.permissions is None:
            return
        index, begin, end = self._intervals.T
        is_open = np.zeros(len(self.permissions), bool)
        is_open[index[(begin <= now_us) & (now_us < end)]] = True
        if self._open is not None and np.array_equal(is_open, self._open):
            return
        self._open = is_open
        withheld = ~self._covered(is_open)
        word, row = self.tokens.parts.T
        hidden_words = withheld[self.tokens.completers]
        hidden_words[word[withheld[row]]] = True
        not_whole = np.zeros(len(self.tokens), bool)
        not_whole[row[hidden_words[word]]] = True
        self._withheld, self._not_whole = withheld[self.tokens.order], not_whole[self.tokens.order]

    def _covered(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool [N]: the tokens of the chosen updates, in layout order."""
        change = np.zeros(len(self.tokens) + 1, np.int64)
        for at, permission in enumerate(self.permissions or ()):
            if chosen[at]:
                change[min(permission.start, len(self.tokens))] += 1
                change[min(permission.stop, len(self.tokens))] -= 1
        return np.cumsum(change)[:-1] > 0

    def _explain(self, step: int, shown: NDArray[np.int16], expected: NDArray[np.int16], live: slice) -> None:
        outside = shown != _ABSENT
        outside[live] = False
        wrong = np.flatnonzero(outside)
        if len(wrong):
            place = int(wrong[0])
            if place >= live.stop:
                self._fail(step, place, f"is visible but arrives at {self.tokens.arrived_us[place]} µs")
            gone_us = self.tokens.arrived_us[place + self.window]
            self._fail(step, place, f"is visible but left the window at {gone_us} µs")
        place = int(live.start + np.flatnonzero(shown[live] != expected)[0])
        if self._withheld[place]:
            self._fail(step, place, "is visible although no update that it is of is permitted then")
        if shown[place] == _ABSENT:
            self._fail(
                step, place, f"is not visible although it arrived at {self.tokens.arrived_us[place]} µs"
            )
        for name, got, right in zip(
            ("recency", "age", "whole"),
            _fields(shown[place]),
            _fields(expected[place - live.start]),
            strict=True,
        ):
            if got != right and name == "whole":
                self._fail(step, place, f"has {self._wholeness(place, got)}")
            if got != right:
                self._fail(
                    step,
                    place,
                    f"has {name} bucket {got} instead of {right}; it arrived at {self.tokens.arrived_us[place]} µs",
                )

    def _wholeness(self, place: int, claimed: int) -> str:
        complete_us = int(self.tokens.complete_us[place])
        claim = "its words whole" if claimed else "its words not whole"
        if complete_us == _NEVER:
            return f"{claim}, but touches no word"
        if self._not_whole[place]:
            return f"{claim}; one of them is spelled or completed by a token that is not permitted then"
        return (
            f"{claim}; they are complete from {complete_us} µs on, while the token of rank "
            f"{self.tokens.oldest[place]}, where they begin, is live"
        )

    def _fail(self, step: int, place: int, what: str) -> None:
        row = int(self.tokens.order[place])
        call, position = self.tokens.table["call"][row], self.tokens.table["position"][row]
        raise CausalityError(
            f"step {step} (session time {self.clock.session_us(step)} µs): token row {row} "
            f"(request {call}, position {position}) {what}",
            where=self.call_id,
        )

    def _check_stored_order(self) -> None:
        table = self.tokens.table
        for name, derived in (("row", np.arange(len(self.tokens))), ("rank", self.tokens.rank)):
            if name not in table.columns:
                continue
            wrong = np.flatnonzero(table[name].to_numpy() != derived)
            if len(wrong):
                at = int(wrong[0])
                what = f"token row {at} is stored with {name} {table[name][at]}, but has {derived[at]}"
                raise CausalityError(what, where=self.call_id)


def _state(recency: NDArray[np.int16], age: NDArray[np.int16], whole: NDArray[np.int16]) -> NDArray[np.int16]:
    """One number per state, all of them ≥ 0."""
    return recency * np.int16(32) + age * np.int16(2) + whole


def _fields(state: np.int16) -> tuple[int, int, int]:
    return int(state) // 32, int(state) // 2 % 16, int(state) % 2


def _read_words(
    tokens: pl.DataFrame, arrival_us: NDArray[np.int64], rank: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Of each of N tokens when all words that it touches are complete and the lowest rank at which one begins, then
    (word, row) [P, 2] of all that spell a word, and [W] the rows that complete them."""
    complete_us = np.full(len(tokens), np.iinfo(np.int64).min)
    oldest = np.full(len(tokens), _NEVER)
    touched = np.zeros(len(tokens), bool)
    media = tokens["media"].to_list() if "media" in tokens.columns else [None] * len(tokens)
    columns = zip(tokens["call"], tokens["special"], media, tokens["bytes"], strict=True)
    word: list[int] = []
    parts: list[tuple[int, int]] = []
    completers: list[int] = []

    def close(completer: int) -> None:
        if word:
            touched[word] = True
            complete_us[word] = np.maximum(complete_us[word], arrival_us[completer])
            oldest[word] = np.minimum(oldest[word], rank[word[0]])
            parts.extend((len(completers), row) for row in word)
            completers.append(completer)
            word.clear()

    previous = None
    for row, (call, special, medium, spelled) in enumerate(columns):
        if row and call != previous:
            close(row - 1)
        previous = call
        if special:
            close(row)
        elif spelled and medium is None:
            head, *others = _BLANKS.split(spelled)
            if head:
                word.append(row)
            for part in others:
                close(row)
                if part:
                    word.append(row)
    close(len(tokens) - 1)
    complete_us[~touched] = _NEVER
    oldest[~touched] = -1
    return complete_us, oldest, np.array(parts, np.int64).reshape(-1, 2), np.array(completers, np.int64)
