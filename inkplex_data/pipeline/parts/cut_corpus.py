"""Which calls of a corpus each of its parts has. Pure: the corpus as it is listed decides, before anything is decoded.

Calls that must know of each other stay together: a family, those of one source, conversation or reference, those that
read one task recording, and a call with the one whose voice it asks for. What belongs together lies in the part in which its
first call falls when the corpus is cut, in its own order, into parts of nearly equal numbers of calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import UsageError
from inkplex_data.pipeline.stamp import stamp

_NAME: Final = re.compile(r"([1-9]\d{0,8})/([1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True)
class PartName:
    """The `number`-th part, from 1, of `of`."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> PartName:
        """The name that `3/100` is. Raises UsageError."""
        found = _NAME.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise UsageError(
                f"{text!r} is no part",
                where="--part",
                next_step="Write, for instance, 3/100: the third of 100.",
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class CorpusPart:
    """One part of a corpus. `call_ix`: per call of the part its place among all calls of the corpus."""

    name: PartName
    entries: tuple[CallEntry, ...]
    call_ix: Mapping[str, int]
    listing_sha256: str
    """Of the ids of all calls and of the parts that they lie in: parts with the same one make up a corpus."""

    def described(self) -> dict[str, Any]:
        """As `store.json` says it under `part`."""
        return {"number": self.name.number, "of": self.name.of, "listing_sha256": self.listing_sha256}


def cut_corpus(entries: Sequence[CallEntry], name: PartName) -> CorpusPart:
    """The part `name` of a corpus, in the order of the corpus; it may have no call."""
    parts = _parts(entries, name.of)
    places = [place for place, part in enumerate(parts) if part == name.number]
    return CorpusPart(
        name,
        tuple(entries[place] for place in places),
        {entries[place].call_id: place for place in places},
        stamp([[entry.call_id, part] for entry, part in zip(entries, parts, strict=True)]),
    )


def _parts(entries: Sequence[CallEntry], of: int) -> list[int]:
    """The part of each call, from 1."""
    root = list(range(len(entries)))

    def first_of(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    owners: dict[tuple[str, str], int] = {}
    for place, entry in enumerate(entries):
        for mark in _marks(entry):
            one, other = first_of(owners.setdefault(mark, place)), first_of(place)
            # The earlier call leads, whatever the order of the links.
            root[max(one, other)] = min(one, other)
    return [first_of(place) * of // len(entries) + 1 for place in range(len(entries))]


def _marks(entry: CallEntry) -> Iterator[tuple[str, str]]:
    """What a call has in common with those that it must not be parted from."""
    yield "call", entry.call_id
    yield "family", entry.family
    for mark in entry.marks:
        yield "mark", mark
    if entry.recording is not None:
        yield "recording", str(entry.recording.resolve())
    if entry.voice_segment is not None:
        yield "call", entry.voice_segment.call_id
