"""Audit of what a call's frames hold: ids in range, tags that fit them, and the words that the text stream spells.

The text is read back from the frames, not placed again: each word of the words table says where its first piece lies
and how many survived, and every piece in the stream must be claimed by one word or be a mark between speakers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from inkplex_data.audit.piece_spelling import PieceSpelling
from inkplex_data.audit.side_levels import is_exchanged
from inkplex_data.grid import (
    AUDIO_CARD,
    EPAD,
    MASK_ALL,
    MASK_HIDDEN_TEXT,
    MASK_TEXT,
    NO_INPUT,
    PAD,
    TAG_EPAD,
    TAG_FIRST,
    TAG_LATER,
    TAG_PAD,
    TEXT_CARD,
)
from inkplex_data.speech.interleave_types import BOS, EOS
from inkplex_data.store.frame_streams import OnFrames


@dataclass(frozen=True)
class TextRules:
    """What a store's recipe allows in its text stream: `in_word_padding` is an id or None."""

    in_word_padding: int | None = None
    speaker_tokens: bool = False
    spelling: PieceSpelling | None = None
    """Of the tokenizer's vocabulary, None where the store keeps none."""

    @property
    def vocabulary(self) -> int:
        """How many text ids there are."""
        return TEXT_CARD if self.spelling is None else len(self.spelling.pieces)


def frame_faults(call: OnFrames, rules: TextRules, permitted: np.ndarray | None) -> Iterator[str]:
    """What is wrong with the streams of a call of F frames.

    `permitted`: uint8 [F], the bits of the loss mask that the call's sidecar leaves; None where it has no sidecar.
    """
    codes, text, tags, mask = call.codes, call.text, call.role, call.mask
    yield from _at((codes >= AUDIO_CARD).any(axis=0), "frame {at} has a code that is none of 0…2047")
    outside = (text < NO_INPUT) | (text >= rules.vocabulary)
    yield from _at(outside, "frame {at} has a text id that the tokenizer does not have")
    padding = [PAD, NO_INPUT] + ([] if rules.in_word_padding is None else [rules.in_word_padding])
    piece = (tags == TAG_FIRST) | (tags == TAG_LATER)
    yield from _at(
        ~np.isin(tags, (TAG_PAD, TAG_EPAD, TAG_FIRST, TAG_LATER)), "frame {at} is tagged as no part of a call"
    )
    yield from _at((tags == TAG_EPAD) & (text != EPAD), "frame {at} is tagged EPAD and has another id")
    yield from _at(
        (tags == TAG_PAD) & ~np.isin(text, padding), "frame {at} is tagged PAD and has the id of a piece"
    )
    yield from _at(
        piece & np.isin(text, (PAD, EPAD, NO_INPUT)), "frame {at} is tagged as a piece and has none"
    )
    known = np.uint8(MASK_ALL | MASK_HIDDEN_TEXT)
    yield from _at((mask & ~known) != 0, "frame {at} has a loss mask with unknown bits")
    if permitted is not None:
        carried = mask & np.uint8(MASK_ALL)
        yield from _at((carried & ~permitted) != 0, "frame {at} carries loss that its sidecar forbids")
    yield from _at(
        (text == NO_INPUT) & (mask & MASK_TEXT != 0), "frame {at} carries text loss without text to learn"
    )
    if is_exchanged(codes, call.level):
        yield "its levels say that the codes of agent and caller lie in each other's place"


def word_faults(call: OnFrames, words: pl.DataFrame, rules: TextRules) -> Iterator[str]:
    """Where the text stream and the words table tell different stories. `words`: the call's rows of `store.words()`."""
    text, tags = call.text, call.role
    claimed = np.zeros(len(text), bool)
    yield from _table_faults(words, rules)
    held = np.flatnonzero(text != NO_INPUT)
    placed = words.filter(pl.col("placed") > 0)
    for index, word, frame, pieces, count in placed.select(
        "word_ix", "text", "frame", "pieces", "placed"
    ).iter_rows():
        what = f"word {index} {word!r}"
        if not 0 <= frame < len(text):
            yield f"{what} is placed on frame {frame} of {len(text)}"
            continue
        own = frame
        if rules.speaker_tokens and text[frame] in (BOS, EOS):
            claimed[frame] = True
            own += 1
        # Pieces lie on frames that follow each other; where some are withheld, there is no input.
        first = int(np.searchsorted(held, own))
        lie = held[first : first + count]
        spelled = text[lie].tolist()
        good = [piece for piece in pieces if piece not in (PAD, EPAD)]
        is_whole = lie.size > 0 and lie[-1] - own == count - 1
        if not (_follow(spelled, good) if is_whole else _are_among(spelled, good)):
            yield f"{what} has the pieces {good}; the {count} frames from {own} on have {spelled}"
        if claimed[lie].any():
            yield f"{what} and the word before it claim the same frame"
        if not np.isin(tags[lie], (TAG_FIRST, TAG_LATER)).all():
            yield f"{what} has pieces from frame {own} on that are tagged as something else"
        if (tags[lie[1:]] != TAG_LATER).any():
            yield f"{what} has later pieces from frame {own} on that are tagged as first ones"
        claimed[lie] = True
    lost = words.filter((pl.col("placed") <= 0) & (pl.col("frame") >= 0))
    for index, word in lost.select("word_ix", "text").iter_rows():
        yield f"word {index} {word!r} has a frame, but none of its pieces was placed"
    unclaimed = np.isin(tags, (TAG_FIRST, TAG_LATER)) & ~claimed
    if rules.speaker_tokens:
        unclaimed &= ~np.isin(text, (BOS, EOS))
    yield from _at(unclaimed, "frame {at} has a piece that belongs to no word of the call")


def _table_faults(words: pl.DataFrame, rules: TextRules) -> Iterator[str]:
    """What is wrong with the words themselves."""
    if words["word_ix"].to_list() != list(range(words.height)):
        yield "its words are not numbered from 0 on: they are those of another call"
    if rules.spelling is not None:
        for index, word, pieces in words.select("word_ix", "text", "pieces").iter_rows():
            if not rules.spelling.spells(word, pieces or []):
                named = rules.spelling.names(pieces or [])
                yield f"word {index} {word!r} has the pieces {named}, which do not spell it as elsewhere"


def _follow(spelled: list[int], pieces: list[int]) -> bool:
    count = len(spelled)
    return any(spelled == pieces[at : at + count] for at in range(len(pieces) - count + 1))


def _are_among(spelled: list[int], pieces: list[int]) -> bool:
    left = iter(pieces)
    return all(one in left for one in spelled)


def _at(bad: Any, what: str) -> Iterator[str]:
    found = np.flatnonzero(bad)
    if len(found):
        yield what.format(at=int(found[0]))
