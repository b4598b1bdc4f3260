"""Permitted updates: in which stretches of session time a call's frames may see which tokens.

Rule: seeds/000, "Minimal dataset and private stream contract", Masks: "permitted private updates at each prediction
frame". A sidecar without a list of permissions permits every token from its arrival on. A list says all that is
permitted: a token is seen only inside the intervals [start, end) that the list has for an update whose rows hold it.
So an update that the list does not name is never seen, nor is a token of no update, which no interval speaks of; and
a crop, which drops the updates that arrive after it, permits in its time what the whole clip does.

Rank, recency and window count what has arrived, permitted or not. But a token's words are spelled by its neighbours:
it is whole only while every token that spells or completes one of its words is permitted too. What is withheld is a
token's own place in the memory; the states of later tokens were computed with it in their context.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import INT64_MAX, seconds_to_us
from inkplex_data.corpus.sidecars.sidecar_models import PermittedUpdate, PrivateUpdate, Sidecar
from inkplex_data.memory.words import Words

Span = tuple[int, int]
"""A stretch [start, end) of session time in µs."""

_EVER: Span = (-INT64_MAX, INT64_MAX)
_STATE = ("row", "recency", "age", "whole")


@dataclass(frozen=True)
class Permitted:
    """When each of N tokens may be seen: in the stretches that `spans` has for its group, in order and apart.

    `group` int64 [N] is in layout order.
    """

    spans: Sequence[Sequence[Span]]
    group: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.group)

    def at(self, session_us: int) -> NDArray[np.bool_]:
        """bool [N]: whether a frame of that session time may see each token that has arrived."""
        owner, start_us, end_us = self._table
        holds = np.zeros(len(self.spans), bool)
        holds[owner[(start_us <= session_us) & (session_us < end_us)]] = True
        return holds[self.group]

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        return _table(self.spans)

    @property
    def never(self) -> int:
        """How many tokens no frame may see, whenever."""
        nowhere = np.array([not spans for spans in self.spans], bool)
        return int(nowhere[self.group].sum())

    def withhold(self, versions: pl.DataFrame, words: Words, step_us: NDArray[np.int64]) -> pl.DataFrame:
        """`versions` without the steps in which they are not permitted, again maximal and in order.

        `versions`: row, start, end, recency, age, whole, sorted by row and start, of the steps at session times
        `step_us` int64 [T], which never decrease. `words`: those of the same tokens.
        """
        seen = _clipped(versions, self.group, self.spans, step_us)
        lines, line = self._word_lines(words)
        across = seen["whole"] & pl.Series(line[seen["row"].to_numpy()] >= 0)
        whole = seen.filter(across)
        parts = [
            seen.filter(~across),
            _clipped(whole, line, lines, step_us),
            _clipped(whole, line, [_outside(spans) for spans in lines], step_us).with_columns(whole=False),
        ]
        return _joined(pl.concat(parts).sort("row", "start"))

    def _word_lines(self, words: Words) -> tuple[list[list[Span]], NDArray[np.int64]]:
        """When the words of a token are permitted, and int64 [N] the place of its spans among these.

        −1 for a token all of whose words' tokens are of its own group.
        """
        found: list[list[Span]] = []
        line = np.full(len(self), -1, np.int64)
        if not len(words):
            return found, line
        spelled, completer = self.group[words.span_row], self.group[words.completer]
        begin = np.searchsorted(words.span_word, np.arange(len(words) + 1))
        low = np.minimum(np.minimum.reduceat(spelled, begin[:-1]), completer)
        high = np.maximum(np.maximum.reduceat(spelled, begin[:-1]), completer)
        for word in np.flatnonzero(low != high):
            rows = words.span_row[begin[word] : begin[word + 1]].tolist()
            together: Sequence[Span] = [_EVER]
            for group in {*self.group[rows].tolist(), int(completer[word])}:
                together = _common(together, self.spans[group])
            for row in rows:
                found.append(_common(together, [_EVER] if line[row] < 0 else found[line[row]]))
                line[row] = len(found) - 1
        return found, line


def permitted_tokens(sidecar: Sidecar | None, tokens: int, recording_starts_at_us: int) -> Permitted | None:
    """When the `tokens` tokens of a call's recording may be seen by the call's sidecar; None where all may, always.

    `recording_starts_at_us`: session time of the call's first sample, from which the sidecar's times count. Rows of
    an update beyond the recording are left out.
    """
    permissions = permissions_of(sidecar)
    updates = sidecar.private_updates.updates if sidecar and sidecar.private_updates else []
    if permissions is None:
        return None

    def session_us(clip_s: float) -> int:
        return max(-INT64_MAX, min(recording_starts_at_us + seconds_to_us(clip_s), INT64_MAX))

    own: dict[str, list[Span]] = {update.id: [] for update in updates}
    for one in permissions:
        end_us = INT64_MAX if one.end_s is None else session_us(one.end_s)
        own[one.update].append((session_us(one.start_s), end_us))
    changes: dict[int, list[PrivateUpdate]] = {}
    for update in updates:
        for row in update.rows if update.rows[0] < update.rows[1] else ():
            changes.setdefault(row, []).append(update)
    # Between two rows at which an update begins or ends, all tokens are of the same updates.
    borders = sorted(changes)
    spans: list[list[Span]] = [[]]
    current: dict[str, PrivateUpdate] = {}
    for row in borders:
        for update in changes[row]:
            if row == update.rows[0]:
                current[update.id] = update
            else:
                del current[update.id]
        spans.append(_union(chain.from_iterable(own[name] for name in current)))
    group = np.searchsorted(np.array(borders, np.int64), np.arange(tokens), side="right")
    return Permitted(spans, group.astype(np.int64))


def permissions_of(sidecar: Sidecar | None) -> list[PermittedUpdate] | None:
    """The sidecar's list of permitted updates; None where it has none, which permits all."""
    return sidecar.masks.permitted_updates if sidecar is not None and sidecar.masks is not None else None


def _clipped(
    versions: pl.DataFrame,
    group: NDArray[np.int64],
    spans: Sequence[Sequence[Span]],
    step_us: NDArray[np.int64],
) -> pl.DataFrame:
    """The parts of versions that lie in the spans of their token's group, in the order of the versions."""
    owner, *ends_us = _table(spans)
    first, stop = np.searchsorted(step_us, ends_us, side="left")
    owner, first, stop = (column[first < stop] for column in (owner, first, stop))
    row, start, end = (versions[name].to_numpy() for name in ("row", "start", "end"))
    # Steps of one group after those of another, so that one search finds the spans of all versions.
    width = len(step_us) + 1
    own_group = group[row] * width
    low = np.searchsorted(owner * width + stop, own_group + start, side="right")
    many = np.searchsorted(owner * width + first, own_group + end, side="left") - low
    which = np.repeat(np.arange(len(row)), many)
    at = np.arange(len(which)) - np.repeat(np.cumsum(many) - many - low, many)
    return versions[which].with_columns(
        pl.Series("start", np.maximum(start[which], first[at]), pl.Int32),
        pl.Series("end", np.minimum(end[which], stop[at]), pl.Int32),
    )


def _table(spans: Sequence[Sequence[Span]]) -> NDArray[np.int64]:
    """int64 [3, S]: the group, start and end of every span."""
    rows = [(group, *span) for group, own in enumerate(spans) for span in own]
    return np.array(rows, np.int64).reshape(-1, 3).T


def _union(spans: Iterable[Span]) -> list[Span]:
    """What any of the spans covers, in order and apart."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif start < end:
            found.append((start, end))
    return found


def _common(ours: Sequence[Span], theirs: Sequence[Span]) -> list[Span]:
    """What lies in both, each in order and apart."""
    both = ((max(a, c), min(b, d)) for a, b in ours for c, d in theirs)
    return sorted(span for span in both if span[0] < span[1])


def _outside(spans: Sequence[Span]) -> list[Span]:
    """What lies in none of the spans, which are in order and apart."""
    edges = [_EVER[0], *chain.from_iterable(spans), _EVER[1]]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]


def _joined(parts: pl.DataFrame) -> pl.DataFrame:
    """Neighbouring parts that say the same, as one. Sorted by row and start."""
    state = parts.select(_STATE)
    continues = (
        (state == state.shift(1)).select(pl.all_horizontal(pl.all())).to_series().fill_null(value=False)
    )
    begins = (~continues | (parts["start"] != parts["end"].shift(1)).fill_null(value=True)).to_numpy()
    ends = np.append(begins[1:], True)[: len(parts)]
    return parts.filter(pl.Series(begins)).with_columns(parts["end"].filter(pl.Series(ends)))
