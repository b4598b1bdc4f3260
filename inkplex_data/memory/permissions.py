"""Permitted updates: in which stretches of session time a call's frames may see which tokens.

Rule: seeds/000, "Minimal dataset and private stream contract", Masks: "permitted private updates at each prediction
frame". A sidecar without a list of permissions permits every token from its arrival on. With a list, a token of an
update is seen only inside the intervals [start, end) that the list has for its update, of several updates for any of
them; an update that the list does not name is never seen. A token of no update needs no permission: updates name
what the private stream adds, and a recording also holds what both sides know (setup, the caller's words).

Rank, recency and window count what has arrived, permitted or not. But a token's words are spelled by its neighbours:
it is whole only while every token that spells or completes one of its words is permitted too. What is withheld is a
token's own place in the memory; the states of later tokens were computed with it in their context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import INT64_MAX, seconds_to_us
from inkplex_data.corpus.sidecars.sidecar_models import PermittedUpdate, PrivateUpdate, Sidecar
from inkplex_data.memory.words import Words

_STATE = ("row", "recency", "age", "whole")


@dataclass(frozen=True)
class Permitted:
    """When each of N tokens may be seen, in layout order.

    `edges_us` int64 [E] are session times in order. Between two of them, in a period, nothing changes: period p ends
    at edge p, the last one never. `allowed` bool [G, E + 1] says for G groups of tokens in which periods they may be
    seen; `group` int64 [N] is the group of each token.
    """

    edges_us: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    group: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.group)

    def at(self, session_us: int) -> NDArray[np.bool_]:
        """bool [N]: whether a frame of that session time may see each token that has arrived."""
        return self.allowed[self.group, np.searchsorted(self.edges_us, session_us, side="right")]

    def withhold(self, versions: pl.DataFrame, words: Words, step_us: NDArray[np.int64]) -> pl.DataFrame:
        """`versions` without the steps in which they are not permitted, again maximal and in order.

        `versions`: row, start, end, recency, age, whole, sorted by row and start, of the steps at session times
        `step_us` int64 [T], which never decrease. `words`: those of the same tokens.
        """
        cuts = np.searchsorted(step_us, self.edges_us, side="left")
        row, start, end = (versions[name].to_numpy() for name in ("row", "start", "end"))
        lines, line = self._word_lines(words)
        always = np.all(self.allowed, axis=1)[self.group] & np.all(lines, axis=1)[line]
        first = np.searchsorted(cuts, start, side="right")
        last = np.where(always[row], first, np.searchsorted(cuts, end - 1, side="right"))
        # One part of a version for each period that it reaches into.
        which = np.repeat(np.arange(len(row)), last - first + 1)
        offset = np.arange(len(which)) - np.repeat(
            np.cumsum(last - first + 1) - (last - first + 1), last - first + 1
        )
        period = first[which] + offset
        bounds = np.concatenate([[0], cuts, [len(step_us)]])
        part_start = np.where(offset > 0, bounds[period], start[which])
        part_end = np.where(period < last[which], bounds[period + 1], end[which])
        seen = self.allowed[self.group[row[which]], period] & (part_start < part_end)
        parts = versions[which].with_columns(
            pl.Series("start", part_start, pl.Int32),
            pl.Series("end", part_end, pl.Int32),
            pl.col("whole") & pl.Series(lines[line[row[which]], period]),
        )
        return _joined(parts.filter(pl.Series(seen)))

    def _word_lines(self, words: Words) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """bool [L, E + 1] and int64 [N]: the line of each token says when all tokens of its words are permitted."""
        if not len(words):
            return self.allowed, self.group
        spelled, completer = self.group[words.span_row], self.group[words.completer]
        begin = np.searchsorted(words.span_word, np.arange(len(words) + 1))
        low = np.minimum(np.minimum.reduceat(spelled, begin[:-1]), completer)
        high = np.maximum(np.maximum.reduceat(spelled, begin[:-1]), completer)
        # Few words lie on the border of two groups; all others have the line of their group.
        own: dict[int, NDArray[np.bool_]] = {}
        for word in np.flatnonzero(low != high):
            rows = words.span_row[begin[word] : begin[word + 1]].tolist()
            together = np.logical_and.reduce(self.allowed[self.group[[*rows, words.completer[word]]]])
            for row in rows:
                own[row] = own.get(row, together) & together
        line = self.group.copy()
        line[list(own)] = len(self.allowed) + np.arange(len(own))
        return np.concatenate([self.allowed, *(one[None] for one in own.values())]), line


def permitted_tokens(sidecar: Sidecar | None, tokens: int, recording_starts_at_us: int) -> Permitted | None:
    """When the `tokens` tokens of a call's recording may be seen by the call's sidecar; None where all may, always.

    `recording_starts_at_us`: session time of the call's first sample, from which the sidecar's times count. Rows of
    an update beyond the recording are left out.
    """
    permissions = permissions_of(sidecar)
    updates = sidecar.private_updates.updates if sidecar and sidecar.private_updates else []
    if permissions is None or not updates:
        return None

    def session_us(clip_s: float | None) -> int | None:
        if clip_s is None:
            return None
        return max(-INT64_MAX, min(recording_starts_at_us + seconds_to_us(clip_s), INT64_MAX))

    spans = [(one.update, session_us(one.start_s), session_us(one.end_s)) for one in permissions]
    edges_us = np.unique(np.array([us for _, *ends in spans for us in ends if us is not None], np.int64))
    by_update = {update.id: np.zeros(len(edges_us) + 1, bool) for update in updates}
    for name, start_us, end_us in spans:
        first, stop = (
            None if us is None else int(np.searchsorted(edges_us, us)) + 1 for us in (start_us, end_us)
        )
        by_update[name][first:stop] = True
    # Tokens between two borders of updates are of the same updates.
    borders = np.unique(np.array([row for update in updates for row in update.rows], np.int64))
    allowed = np.zeros((len(borders) + 1, len(edges_us) + 1), bool)
    named = np.zeros(len(allowed), bool)
    for update in updates:
        first, stop = (int(np.searchsorted(borders, row)) + 1 for row in update.rows)
        allowed[first:stop] |= by_update[update.id]
        named[first:stop] = True
    allowed[~named] = True
    group = np.searchsorted(borders, np.arange(tokens), side="right").astype(np.int64)
    return Permitted(edges_us, allowed, group)


def permissions_of(sidecar: Sidecar | None) -> list[PermittedUpdate] | None:
    """The sidecar's list of permitted updates; None where it has none, which permits all."""
    return sidecar.masks.permitted_updates if sidecar is not None and sidecar.masks is not None else None


def never_permitted(sidecar: Sidecar | None) -> list[PrivateUpdate]:
    """Updates that the sidecar's list of permissions does not name."""
    permissions = permissions_of(sidecar)
    if permissions is None or sidecar is None or sidecar.private_updates is None:
        return []
    named = {one.update for one in permissions}
    return [update for update in sidecar.private_updates.updates if update.id not in named]


def _joined(parts: pl.DataFrame) -> pl.DataFrame:
    """Neighbouring parts that say the same, as one. Sorted by row and start."""
    if not len(parts):
        return parts
    state = parts.select(_STATE)
    continues = (state == state.shift(1)).select(pl.all_horizontal(pl.all())).to_series().fill_null(False)
    continues &= (parts["start"] == parts["end"].shift(1)).fill_null(False)
    begins = (~continues).to_numpy()
    ends = np.append(begins[1:], True)
    return parts.filter(pl.Series(begins)).with_columns(parts["end"].filter(pl.Series(ends)))
