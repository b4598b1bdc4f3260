"""What goes into the text stream and what comes out: words, the stream, and the reasons for losses.

Part of `inkplex_data.speech.interleave`, which exports these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from inkplex_data.grid import TAG_FIRST

Policy = Literal["kyutai", "moshi-paper"]
Overflow = Literal["replace", "shift"]
Rounding = Literal["exact", "kyutai"]

BOS: Final = 1
EOS: Final = 2

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Reason = Literal[
    "other-speaker",
    "no-duration",
    "before-delay",
    "no-pieces",
    "reserved-id",
    "replaced",
    "past-end",
    "no-input",
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)


class Word(NamedTuple):
    """One word of a call: its SentencePiece ids, its times on the call's clock, and who said it."""

    pieces: Sequence[int]
    start_us: int
    end_us: int
    speaker: str = "SPEAKER_MAIN"


class Drop(NamedTuple):
    """Pieces of one word that were not placed. `word` indexes the words as they were given.

    `reason` is one of
    `other-speaker` (not the main speaker), `no-duration` (end ≤ start), `before-delay` (over before the text
    begins: end ≤ delay), `no-pieces` (the word has none), `reserved-id` (a piece with the id of PAD or
    EPAD), `replaced` (a later word began), `past-end` (no frame left), `no-input` (in the opening stretch
    that a negative delay blanks).
    """

    word: int
    reason: Reason
    pieces: int


@dataclass(frozen=True)
class TextStream:
    """The text stream of one call, and what became of its words.

    `ids` int32 [frames] holds pieces, PAD 3, EPAD 0, BOS 1 and EOS 2 (with `speaker_tokens`), the in-word
    padding, and −1 where a negative delay leaves no input. `roles` uint8 [frames] holds the tags: 0 pad, 1 epad, 2 first
    piece, 3 later piece; a BOS or EOS opens its word and has tag 2, and the word's pieces then have 3.
    `word_frames` int32 [words] is the frame of a word's tag 2, or of its first surviving piece, −1 where no
    piece was placed; `word_placed` int16 [words] counts the pieces placed, without BOS and EOS. Both are in
    the order in which the words were given. words_placed + words_dropped is the number of words, and
    pieces_placed + pieces_dropped that of pieces; `drops` gives the reasons.
    """

    ids: npt.NDArray[np.int32]
    roles: npt.NDArray[np.uint8]
    word_frames: npt.NDArray[np.int32]
    word_placed: npt.NDArray[np.int16]
    words_placed: int
    words_dropped: int
    pieces_placed: int
    pieces_dropped: int
    markers_placed: int
    markers_dropped: int
    drops: tuple[Drop, ...]

    @property
    def pad_fraction(self) -> float:
        """Share of frames that carry no piece: PAD, EPAD, in-word padding, no input. 0.0 without frames."""
        return float((self.roles < TAG_FIRST).mean()) if self.roles.size else 0.0
