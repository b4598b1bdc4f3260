"""Whether pieces of the text tokenizer spell a word: its vocabulary says so, the scores of its model are not needed.

Pieces are followed along the word's normalised form. Which of SentencePiece's normalisations a tokenizer was trained
with does not stand in its vocabulary; those are kept that fit every word so far. Nor is it known which of several ways
to divide a word is the model's, but it is the same for the same word each time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from inkplex_data.memory.pieces import LONE_SPACE, decode_with_offsets

NORMALISATIONS: Final = ("identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
_SPACE: Final = LONE_SPACE.encode()
_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SAME_EVERYWHERE: Final = re.compile(rb"[\x21-\x40\x5b-\x7e]+")
"""Words that no normalisation changes."""
_FORMS: Final = 1 << 15


class Part(NamedTuple):
    """The bytes [begin, end) of a word that the token of `row` spells."""

    row: int
    begin: int
    end: int


class _Form(NamedTuple):
    """A word's normalised bytes [n] with the `▁` before it, and the range of the word's own bytes that each comes from."""

    bytes: bytes
    starts: Sequence[int]
    ends: Sequence[int]


class PieceSpelling:
    """What the pieces of one vocabulary spell, and how the words seen so far were divided."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = pieces
        self._spelled = [_stands_for(piece) for piece in pieces]
        self._rules: Sequence[str] = NORMALISATIONS
        self._divided: dict[tuple[bytes, bool], list[int]] = {}

    def names(self, ids: Sequence[int]) -> list[str]:
        """Pieces as the vocabulary spells them, for a message."""
        return [self.pieces[one] if 0 <= one < len(self.pieces) else str(one) for one in ids]

    def misfit(
        self,
        word: bytes,
        parts: Sequence[Part],
        lists: Sequence[Sequence[int]],
        used: list[int],
        *,
        spaces: bool = False,
    ) -> int | None:
        """The first row of `parts` whose list does not go on with the pieces of its bytes; None where all do.

        `lists` are the piece ids of every row, `used` how many of each belong to words before this one; it moves on
        where the word fits. A piece that reaches over a border stands in the lists on both sides of it. `spaces`:
        whether a `▁` alone is listed.
        """
        same = _SAME_EVERYWHERE.fullmatch(word) is not None
        walks = {}
        for rule in self._rules[:1] if same else self._rules:
            walks[rule] = self._walk(_form(word, rule), parts, lists, used, spaces)
        fitting = [walk for walk in walks.values() if walk[0] is None]
        if not fitting:
            return next(iter(walks.values()))[0]
        # A rule that takes a character away has no use for its pieces.
        best = max(fitting, key=lambda walk: len(walk[1]))
        _, divided, after = best
        if not same:
            self._rules = [rule for rule, walk in walks.items() if walk == best]
        if self._divided.setdefault((word, spaces), divided) != divided:
            return parts[0].row
        for row, count in after.items():
            used[row] = count
        return None

    def spells(self, text: str, ids: Sequence[int]) -> bool:
        """Whether `ids` are all the pieces of a text that is tokenized on its own."""
        word, used = text.strip().encode(), [0]
        row = self.misfit(word, [Part(0, 0, len(word))], [ids], used, spaces=True)
        return row is None and used == [len(ids)]

    def _walk(
        self,
        form: _Form,
        parts: Sequence[Part],
        lists: Sequence[Sequence[int]],
        used: Sequence[int],
        spaces: bool,
    ) -> tuple[int | None, list[int], dict[int, int]]:
        """The row that does not fit, the word's pieces, and how many of each row's list are used then."""
        after = {row: used[row] for row, _, _ in parts}
        divided: list[int] = []
        stops: list[int] = []
        at = 0
        for row, begin, end in parts:
            listed, own = lists[row], after[row]
            carried = [one for one, stop in zip(divided, stops, strict=True) if stop > begin]
            if list(listed[own : own + len(carried)]) != carried:
                return row, divided, after
            own += len(carried)
            while at < len(form.bytes) and form.starts[at] < end:
                one = listed[own] if own < len(listed) else -1
                spelled = self._spelled[one] if 0 <= one < len(self.pieces) else b""
                at_space = form.bytes.startswith(_SPACE, at)
                fits = spelled != b"" and form.bytes.startswith(spelled, at)
                if at_space:
                    fits = fits and spelled.startswith(_SPACE) and (spaces or spelled != _SPACE)
                if fits:
                    at += len(spelled)
                    own += 1
                    divided.append(one)
                    stops.append(form.ends[at - 1])
                elif at_space and not spaces:
                    at += len(_SPACE)
                else:
                    return row, divided, after
            after[row] = own
        return None, divided, after


@lru_cache(_FORMS)
def _form(word: bytes, rule: str) -> _Form:
    if _SAME_EVERYWHERE.fullmatch(word):
        return _Form(_SPACE + word, [0, 0, 0, *range(len(word))], [0, 0, 0, *range(1, len(word) + 1)])
    text, from_byte, to_byte = decode_with_offsets(word)
    source = text.encode()
    normal, offsets = _normaliser(rule).normalize(source, with_offsets=True)
    begins = np.asarray(offsets, np.int64)
    space = len(_SPACE)
    # Bytes of one offset came from one stretch of the source, which ends where the next offset begins.
    stops = begins[np.minimum(np.searchsorted(begins, begins, side="right"), len(begins) - 1)]
    starts, ends = begins[:-1].copy(), stops[:-1].copy()
    ends[:space] = starts[:space]  # the space that is put before a text stands for nothing
    for start, stop in set(zip(starts[space:].tolist(), ends[space:].tolist(), strict=True)):
        own = space + np.flatnonzero(starts[space:] == start)
        if normal[own[0] : own[-1] + 1] == source[start:stop]:
            # The character is as it was: each of its bytes may have a piece of its own.
            starts[own], ends[own] = np.arange(start, stop), np.arange(start, stop) + 1
    if from_byte is not None and to_byte is not None:
        starts, ends = from_byte[starts], to_byte[ends - 1]
    return _Form(normal, starts.tolist(), ends.tolist())


@cache
def _normaliser(rule: str) -> Any:
    from sentencepiece import SentencePieceNormalizer

    return SentencePieceNormalizer(
        rule_name=rule, add_dummy_prefix=True, escape_whitespaces=True, remove_extra_whitespaces=True
    )


def _stands_for(piece: str) -> bytes:
    """The bytes of a normalised text that a piece stands for."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.encode()
