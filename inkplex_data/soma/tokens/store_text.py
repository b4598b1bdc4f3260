"""The text of a store as soma's corpus: its task recordings and its calls, each a document in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from inkplex_data.soma.tokens.protocol import Side
from inkplex_data.soma.tokens.source_text import Document, Segment, Turn

if TYPE_CHECKING:
    from inkplex_data.store.reader import Store

SIDE_OF_KIND: Final[dict[str, Side]] = {
    "user": "user",
    "tool_result": "user",
    "thinking": "soma",
    "tool_call": "soma",
    "reply": "soma",
}
"""In a task trace soma stands for the reasoning model, so that what comes from outside is the user's. Text of other kinds,
such as the setup, is nobody's turn."""


@dataclass(frozen=True)
class SpokenTurn:
    """Words that one speaker says before another speaks. `words`: rows of the words table, in order of time."""

    side: Side
    words: Sequence[dict[str, Any]]

    def parts(self) -> list[bytes | int]:
        return Turn(self.side, b"".join(map(word_text, self.words))).parts()


def word_text(word: dict[str, Any]) -> bytes:
    """The source bytes of a word of a transcript: a space and its text, so that it is spelled alike wherever it stands."""
    return b" " + (word["text"] or "").strip().encode("utf-8", "surrogateescape")


def spoken_turns(words: pl.DataFrame, main_speaker: str | None) -> list[SpokenTurn]:
    """Both sides of a call in order of time: the main speaker is soma, every other one the user.

    `main_speaker` is None where everybody speaks in the agent's stream, and then all are soma. Pure.
    """
    rows = (
        words.select("word_ix", "text", "start_us", "end_us", "speaker")
        .sort("start_us", "word_ix")
        .to_dicts()
    )
    turns = []
    for speaker, said in groupby(rows, lambda word: word["speaker"]):
        turns.append(SpokenTurn("soma" if main_speaker in (None, speaker) else "user", list(said)))
    return turns


def call_turns(store: Store, call_id: str) -> list[SpokenTurn]:
    """The turns of one call. Raises UsageError for an unknown call, StoreCorruptError for damaged bytes."""
    main_speaker = None if store.is_single_stream else store.setting("text", "main_speaker") or "SPEAKER_MAIN"
    return spoken_turns(store.call(call_id).words, main_speaker)


def recording_kinds(store: Store, recording_id: str) -> list[tuple[str, Turn]]:
    """A task trace in turns of one kind each, in layout order: what the model was told, thought, did and replied.

    Special tokens are the model's template and media have no bytes; both are left out.
    """
    tokens = (
        store.tokens()
        .filter(pl.col("recording_id") == recording_id)
        .select("row", "call", "kind", "bytes", "special")
        .collect()
        .sort("row")
        .filter(~pl.col("special"))
    )
    turns = []
    for (_, kind), run in groupby(tokens.iter_rows(named=True), lambda token: (token["call"], token["kind"])):
        text = b"".join(token["bytes"] or b"" for token in run)
        if text:
            turns.append((kind, Turn(SIDE_OF_KIND.get(kind), text)))
    return turns


@dataclass(frozen=True)
class CallText:
    """The transcript of one call: one segment, since a call is short."""

    store: Store
    call_id: str

    @property
    def name(self) -> str:
        return f"{self.store.root}, call {self.call_id!r}"

    def segments(self, offset: int) -> Iterator[Segment]:
        yield Segment(
            offset, [part for turn in call_turns(self.store, self.call_id) for part in turn.parts()]
        )


@dataclass(frozen=True)
class RecordingText:
    """One task trace: one segment."""

    store: Store
    recording_id: str

    @property
    def name(self) -> str:
        return f"{self.store.root}, recording {self.recording_id!r}"

    def segments(self, offset: int) -> Iterator[Segment]:
        turns = recording_kinds(self.store, self.recording_id)
        yield Segment(offset, [part for _, turn in turns for part in turn.parts()])


def store_documents(store: Store) -> list[Document]:
    """Every task trace of a store and then every call, in stored order."""
    recordings = store.owners("recordings")["recording_id"].to_list()
    return [
        *(RecordingText(store, recording_id) for recording_id in recordings),
        *(CallText(store, call_id) for call_id in store.call_ids),
    ]
