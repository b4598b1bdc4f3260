"""The agent's text stream: words with times become one text id per 80 ms frame.

Two rules for where a word goes. `kyutai` is that of the released Moshi fine-tuning recipe: a word's first
piece on the frame in which the word begins, the others on the frames after it. `moshi-paper` is the table of
seeds/002, "Aligning text to 12.5 Hz": the nearest frame of a 1-based grid, never the first one. Both turn
the PAD before a word into EPAD, never a piece.

Everything is computed over the whole call at once. Each piece ends up with the frame it was placed on or
with the reason why it was not, so nothing is lost without being counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, get_args

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.grid import EPAD, NO_INPUT, PAD, TAG_EPAD, TAG_FIRST, TAG_LATER, TAG_PAD, TEXT_CARD
from inkplex_data.speech.interleave_grid import (
    blank_frames,
    frames_of,
    inside_words,
    positions,
    speaker_changes,
    speaker_markers,
)
from inkplex_data.speech.interleave_types import (
    REASONS,
    Bools,
    Drop,
    Ints,
    Overflow,
    Policy,
    Rounding,
    TextStream,
    Word,
)

__all__ = ["TextStream", "Word", "interleave"]

_RESERVED: Final = (EPAD, PAD)
_PLACED: Final = -1
_FATE: Final = {reason: number for number, reason in enumerate(REASONS)}


def interleave(
    words: Sequence[Word],
    frames: int,
    *,
    policy: Policy = "kyutai",
    overflow: Overflow = "replace",
    rounding: Rounding = "exact",
    in_word_padding: int | None = None,
    delay_us: int = 0,
    speaker_tokens: bool = False,
    main_speaker: str | None = "SPEAKER_MAIN",
) -> TextStream:
    """Place the agent's words on the `frames` frames of a call.

    In this order: stable sort by start; keep `main_speaker`, every speaker where that is None, or with
    `speaker_tokens` every speaker, BOS before the main speaker's first word and EOS before the first word after
    it; drop words with end ≤ start; drop words with end − delay ≤ 0; onset from start − delay, a negative one on
    frame 0.

    overflow: a new word takes the place of the last one's pending pieces (`replace`), or queues behind them
    (`shift`). rounding: `exact` integers, or `kyutai`, which computes (start − delay) × 12.5 in double
    precision from seconds and so puts some words one frame early, as the released recipe does.
    in_word_padding: id for frames inside a word after its pieces; None leaves PAD there.
    delay_us: positive, the text runs ahead of the audio; negative, it lags and its first frames are −1.

    Two words of two pieces each, on frames 2 and 5 (PAD 3, EPAD 0):

    >>> words = [Word([70, 71], 160_000, 320_000), Word([80, 81], 400_000, 480_000)]
    >>> interleave(words, 8).ids.tolist(), interleave(words, 8).roles.tolist()
    ([3, 0, 70, 71, 0, 80, 81, 3], [0, 1, 2, 3, 1, 2, 3, 0])

    Raises ConfigError for options that do not exist and UsageError for ids outside the text vocabulary.
    """
    _check_options(frames, policy, overflow, rounding, in_word_padding)
    table = _WordTable.of(words)
    markers = np.zeros(len(words), np.int64)
    order = np.argsort(table.start, kind="stable")
    speakers = [word.speaker for word in words]
    is_main = np.array([main_speaker in (None, speaker) for speaker in speakers], bool)
    if speaker_tokens:
        markers[order] = speaker_markers(is_main[order], speaker_changes([speakers[i] for i in order]))
    fates = _word_fates(table, delay_us, None if speaker_tokens else is_main)
    kept = order[fates[order] == _PLACED]

    onset = frames_of(table.start[kept], delay_us, policy, rounding)
    # The paper's grid is 1-based and its first frame can only hold an EPAD, so index 0 is never an onset.
    onset = np.maximum(onset, 1 if policy == "moshi-paper" else 0)
    blank = min(blank_frames(delay_us, rounding), frames)
    pieces = _place(table, kept, markers[kept], onset, overflow=overflow, frames=frames, blank=blank)

    ids = np.full(frames, PAD, np.int32)
    if in_word_padding is not None:
        last = frames_of(table.end[kept], delay_us, policy, rounding)
        ids[inside_words(onset, last, frames)] = in_word_padding
    tags = _draw(ids, pieces, blank)

    piece_fates = np.repeat(fates, table.sizes)
    piece_fates[table.reserved & (piece_fates == _PLACED)] = _FATE["reserved-id"]
    own = pieces.source >= 0
    piece_fates[pieces.source[own]] = pieces.fate[own]
    placed = np.bincount(table.owner[piece_fates == _PLACED], minlength=len(words))
    word_frames = np.full(len(words), -1, np.int32)
    here = np.flatnonzero(pieces.fate == _PLACED)[::-1]
    word_frames[kept[pieces.word[here]]] = pieces.frame[
        here
    ]  # reversed: a word's earliest frame is written last
    word_frames[placed == 0] = -1
    words_placed, pieces_placed = int((placed > 0).sum()), int(placed.sum())
    markers_placed = int((~own & (pieces.fate == _PLACED)).sum())
    return TextStream(
        ids=ids,
        roles=tags,
        word_frames=word_frames,
        word_placed=np.minimum(placed, np.iinfo(np.int16).max).astype(np.int16),
        words_placed=words_placed,
        words_dropped=len(words) - words_placed,
        pieces_placed=pieces_placed,
        pieces_dropped=len(table.ids) - pieces_placed,
        markers_placed=markers_placed,
        markers_dropped=int((markers > 0).sum()) - markers_placed,
        drops=_drops(table, fates, piece_fates),
    )


@dataclass(frozen=True)
class _Pieces:
    """What the kept words want placed, in stream order: N pieces and speaker markers."""

    word: Ints  # [N] index among the kept words
    nth: Ints  # [N] place within the word, its marker included
    source: Ints  # [N] index into the table's pieces, −1 for a marker
    id: Ints  # [N]
    frame: Ints  # [N] where it belongs
    fate: Ints  # [N] why it cannot be there, or _PLACED


def _place(
    table: _WordTable,
    kept: Ints,
    markers: Ints,
    onset: Ints,
    *,
    overflow: Overflow,
    frames: int,
    blank: int,
) -> _Pieces:
    has_marker = (markers > 0).astype(np.int64)
    sizes = table.good[kept] + has_marker
    first, room, nxt = positions(onset, sizes, frames, overflow)
    word = np.repeat(np.arange(len(kept)), sizes)
    nth = np.arange(len(word)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    frame = first[word] + nth

    source = np.full(len(word), -1, np.int64)
    own = nth >= has_marker[word]
    source[own] = table.good_at[(table.good_offset[kept][word] + nth - has_marker[word])[own]]
    id_ = markers[word]
    id_[own] = table.ids[source[own]]

    fate = np.full(len(word), _PLACED, np.int64)
    fate[frame < blank] = _FATE["no-input"]
    fate[frame >= frames] = _FATE["past-end"]
    fate[(nth >= room[word]) & (nxt[word] < frames)] = _FATE["replaced"]
    return _Pieces(word, nth, source, id_, frame, fate)


def _draw(ids: npt.NDArray[np.int32], pieces: _Pieces, blank: int) -> npt.NDArray[np.uint8]:
    """Write pieces, EPADs and the blank opening into `ids`; returns the tags, uint8 [frames].

    Three pieces of two words, on frames 1, 2 and 4 (PAD 3, EPAD 0):

    >>> word, nth, frame = np.array([[0, 0, 1], [0, 1, 0], [1, 2, 4]])
    >>> pieces = _Pieces(word, nth, np.arange(3), np.array([70, 71, 80]), frame, np.full(3, _PLACED))
    >>> ids = np.full(6, PAD); _draw(ids, pieces, 0).tolist(), ids.tolist()
    ([1, 2, 3, 1, 2, 0], [0, 70, 71, 0, 80, 3])
    """
    tags = np.zeros(len(ids), np.uint8)
    # Pieces under the blank opening count as pieces while EPADs are chosen, and are overwritten after it.
    on_grid = (pieces.fate == _PLACED) | (pieces.fate == _FATE["no-input"])
    at = pieces.frame[on_grid]
    ids[at] = pieces.id[on_grid]
    tags[at] = np.where(pieces.nth[on_grid] == 0, TAG_FIRST, TAG_LATER)
    before_word = np.flatnonzero((tags[:-1] == TAG_PAD) & (tags[1:] >= TAG_FIRST))
    ids[before_word], tags[before_word] = EPAD, TAG_EPAD
    ids[:blank], tags[:blank] = NO_INPUT, TAG_PAD
    return tags


@dataclass(frozen=True)
class _WordTable:
    """The words as arrays: W words, P pieces, and where the G pieces that may be placed lie among the P."""

    start: Ints  # [W] µs
    end: Ints  # [W] µs
    sizes: Ints  # [W] pieces
    ids: Ints  # [P]
    owner: Ints  # [P] word of a piece
    reserved: Bools  # [P]
    good: Ints  # [W] pieces that may be placed
    good_offset: Ints  # [W] into good_at
    good_at: Ints  # [G] into ids

    @classmethod
    def of(cls, words: Sequence[Word]) -> _WordTable:
        count = len(words)
        pieces = [word.pieces for word in words]
        sizes = np.array([len(one) for one in pieces], np.int64)
        ids = np.array(list(chain.from_iterable(pieces)), np.int64)
        owner = np.repeat(np.arange(count), sizes)
        outside = np.flatnonzero((ids < 0) | (ids >= TEXT_CARD))
        if outside.size:
            raise UsageError(
                f"piece id {ids[outside[0]]} of word {owner[outside[0]]} is not in 0…{TEXT_CARD - 1}",
                next_step="Tokenize words with the speech model's text tokenizer.",
            )
        reserved = np.isin(ids, _RESERVED)
        good = np.bincount(owner[~reserved], minlength=count)
        return cls(
            start=np.array([word.start_us for word in words], np.int64),
            end=np.array([word.end_us for word in words], np.int64),
            sizes=sizes,
            ids=ids,
            owner=owner,
            reserved=reserved,
            good=good,
            good_offset=np.cumsum(good) - good,
            good_at=np.flatnonzero(~reserved),
        )


def _check_options(
    frames: int, policy: str, overflow: str, rounding: str, in_word_padding: int | None
) -> None:
    faults = [
        f"{name} is {value!r}; it can be {', '.join(map(repr, get_args(known)))}"
        for name, value, known in (
            ("policy", policy, Policy),
            ("overflow", overflow, Overflow),
            ("rounding", rounding, Rounding),
        )
        if value not in get_args(known)
    ]
    if in_word_padding is not None and not 0 <= in_word_padding < TEXT_CARD:
        faults.append(f"in_word_padding is {in_word_padding}; it is a text id, 0…{TEXT_CARD - 1}, or None")
    if frames < 0:
        faults.append(f"frames is {frames}; it cannot be negative")
    if faults:
        raise ConfigError("the options of the text stream are wrong", faults=faults)


def _word_fates(table: _WordTable, delay_us: int, is_main: Bools | None) -> Ints:
    """int64 [W]: index of the reason that keeps a word off the stream, −1 where there is none."""
    fates = np.full(len(table.start), _PLACED, np.int64)
    fates[table.end <= delay_us] = _FATE["before-delay"]
    fates[table.end <= table.start] = _FATE["no-duration"]
    if is_main is not None:
        fates[~is_main] = _FATE["other-speaker"]
    return fates


def _drops(table: _WordTable, fates: Ints, piece_fates: Ints) -> tuple[Drop, ...]:
    """One entry per word and reason, by word."""
    lost = np.flatnonzero(piece_fates != _PLACED)
    empty = np.flatnonzero(table.sizes == 0)
    why_empty = np.where(fates[empty] == _PLACED, _FATE["no-pieces"], fates[empty])
    keys = np.concatenate(
        [table.owner[lost] * len(REASONS) + piece_fates[lost], empty * len(REASONS) + why_empty]
    )
    keys, counts = np.unique(keys, return_counts=True)
    words, reasons = np.divmod(keys, len(REASONS))
    counts[table.sizes[words] == 0] = 0
    names = [REASONS[reason] for reason in reasons.tolist()]
    return tuple(map(Drop, words.tolist(), names, counts.tolist()))
