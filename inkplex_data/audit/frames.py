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

from inkplex_data.grid import (
    AUDIO_CARD,
    EPAD,
    MASK_ALL,
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
    vocabulary: int = TEXT_CARD


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
    yield from _at((mask & ~np.uint8(MASK_ALL)) != 0, "frame {at} has a loss mask with unknown bits")
    if permitted is not None:
        yield from _at((mask & ~permitted) != 0, "frame {at} carries loss that its sidecar forbids")


def word_faults(call: OnFrames, words: pl.DataFrame, rules: TextRules) -> Iterator[str]:
    """Where the text stream and the words table tell different stories. `words`: the call's rows of `store.words()`."""
    text, tags = call.text, call.role
    claimed = np.zeros(len(text), bool)
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
        spelled = text[own : own + count].tolist()
        good = [piece for piece in pieces if piece not in (PAD, EPAD)]
        if not any(spelled == good[at : at + count] for at in range(len(good) - count + 1)):
            yield f"{what} has the pieces {good}; the {count} frames from {own} on have {spelled}"
        if claimed[own : own + count].any():
            yield f"{what} and the word before it claim the same frame"
        if not np.isin(tags[own : own + count], (TAG_FIRST, TAG_LATER)).all():
            yield f"{what} has pieces from frame {own} on that are tagged as something else"
        claimed[own : own + count] = True
    lost = words.filter((pl.col("placed") <= 0) & (pl.col("frame") >= 0))
    for index, word in lost.select("word_ix", "text").iter_rows():
        yield f"word {index} {word!r} has a frame, but none of its pieces was placed"
    unclaimed = np.isin(tags, (TAG_FIRST, TAG_LATER)) & ~claimed
    if rules.speaker_tokens:
        unclaimed &= ~np.isin(text, (BOS, EOS))
    yield from _at(unclaimed, "frame {at} has a piece that belongs to no word of the call")


def _at(bad: Any, what: str) -> Iterator[str]:
    found = np.flatnonzero(bad)
    if len(found):
        yield what.format(at=int(found[0]))
