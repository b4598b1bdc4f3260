"""The words of a view with their pieces, for tables and pages."""

from __future__ import annotations

from dataclasses import dataclass

from inkplex_data.report.view import CallView


@dataclass(frozen=True)
class ShownWord:
    """A word as it is shown; `pieces` are texts, of which the first `placed` are in the text stream."""

    text: str
    start_us: int
    end_us: int
    speaker: str
    is_agent: bool
    frame: int
    pieces: tuple[str, ...]
    placed: int

    @property
    def incomplete(self) -> bool:
        """Whether pieces of an agent's word found no place."""
        return self.is_agent and self.placed < len(self.pieces)


def plain(text: str) -> str:
    """`text` on one line: characters that would move a cursor or are not printable become `·`."""
    return "".join(letter if letter.isprintable() else "·" for letter in text) or "·"


def words_of(view: CallView) -> list[ShownWord]:
    """All words by onset."""
    words = view.words.sort("start_us", maintain_order=True)
    columns = ("text", "start_us", "end_us", "speaker", "frame", "pieces", "placed")
    return [
        ShownWord(
            text=plain(text),
            start_us=start_us,
            end_us=end_us,
            speaker=plain(speaker or "unknown"),
            is_agent=speaker == view.main_speaker,
            frame=-1 if frame is None else frame,
            pieces=tuple(plain(view.piece(piece)) for piece in pieces or ()),
            placed=len(pieces or ()) if placed is None else placed,
        )
        for text, start_us, end_us, speaker, frame, pieces, placed in words.select(columns).iter_rows()
    ]
