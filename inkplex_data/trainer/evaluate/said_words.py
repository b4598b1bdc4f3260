"""From a text stream back to words with times, and what is wrong with them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import EPAD, PAD

SPACE = "▁"
FIRST_ORDINARY_ID = 4
"""Ids 0 to 3 are EPAD (or unknown), BOS, EOS and PAD: none is a piece of a word."""
PHRASE_WORDS = 3

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class SpokenWord:
    """A word of a text stream: frames [start, end), from its first piece to after its last."""

    text: str
    start: int
    end: int

    @property
    def start_us(self) -> int:
        return self.start * FRAME_US

    @property
    def end_us(self) -> int:
        return self.end * FRAME_US


def spoken_words(ids: Sequence[int], pieces: Sequence[str], *, first_frame: int = 0) -> list[SpokenWord]:
    """The words of a text stream. A piece with a leading space begins a word, padding does not end one.

    ids: one a frame, the first of `first_frame`. pieces: the tokenizer's, by id; ids without one are left out.
    """
    words: list[SpokenWord] = []
    spelled = b""
    start = end = first_frame

    def close() -> None:
        text = spelled.decode("utf-8", "replace").strip()
        if text:
            words.append(SpokenWord(text, start, end))

    for frame, piece_id in enumerate(ids, first_frame):
        if not FIRST_ORDINARY_ID <= piece_id < len(pieces):
            continue
        piece = pieces[piece_id]
        if piece.startswith(SPACE) or not spelled:
            close()
            spelled, start = b"", frame
        spelled += _bytes(piece)
        end = frame + 1
    close()
    return words


def has_pieces(ids: Sequence[int]) -> bool:
    """Whether anything but padding and marks is said."""
    return any(piece_id >= FIRST_ORDINARY_ID for piece_id in ids if piece_id not in (PAD, EPAD))


def repeated_phrases(words: Sequence[str], *, size: int = PHRASE_WORDS) -> int:
    """How many stretches of `size` words were said before: all occurrences less the first of each.

    Case and punctuation do not matter. Said once, or too short, gives 0.
    """
    plain = [word for word in (re.sub(r"\W+", "", word).casefold() for word in words) if word]
    phrases = Counter(tuple(plain[at : at + size]) for at in range(len(plain) - size + 1))
    return sum(count - 1 for count in phrases.values())


def _bytes(piece: str) -> bytes:
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()
