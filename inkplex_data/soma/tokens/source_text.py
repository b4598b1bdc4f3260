"""What soma reads: text files, the transcripts and the task traces of a store, and standard input.

A corpus is a list of documents. A document gives segments, runs of source bytes and protocol pieces that can be tokenized
on their own, because each begins where no piece can reach across.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from inkplex_data.errors import CorpusError
from inkplex_data.reading import open_file
from inkplex_data.soma.tokens.protocol import ROLE, Side
from inkplex_data.soma.tokens.soma_tokenizer import TURN

SEGMENT_BYTES: Final = 1 << 15
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CUT: Final = re.compile(rb".*(?:[\n\r\t](?=.)|.(?= ))", re.DOTALL)
"""Up to the last place at which a text may be cut in two: behind a line end or tab, or before a space."""


@dataclass(frozen=True)
class Segment:
    """Source bytes, and ids of protocol pieces between them. `offset`: of its first byte in its document."""

    offset: int
    parts: Sequence[bytes | int]


class Document(Protocol):
    """A part of a corpus after which everything begins anew."""

    @property
    def name(self) -> str:
        """What messages and saved places call it."""
        ...

    def segments(self, offset: int) -> Iterator[Segment]:
        """The segments from the one at `offset` on, each as it is whatever was read before it."""
        ...


@dataclass(frozen=True)
class TextFile:
    """A file of text or any other bytes, plain or in gzip or zstd. Errors of reading are CorpusErrors that name it."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def segments(self, offset: int) -> Iterator[Segment]:
        try:
            with open_file(self.path) as raw, _unpacked(raw) as file:
                _skip(file, offset)
                yield from _cut(file, offset)
        except (OSError, EOFError, ValueError, zlib.error) as error:  # PyArrow's damage is a ValueError
            raise CorpusError(
                f"the text cannot be read: {getattr(error, 'strerror', None) or error}",
                where=self.name,
                next_step="Give a file of text, plain or in gzip or zstd, that is whole.",
            ) from error


@dataclass(frozen=True)
class Stream:
    """Bytes that can be read once, such as standard input; a saved place is reached by reading up to it."""

    file: BinaryIO
    name: str = "standard input"

    def segments(self, offset: int) -> Iterator[Segment]:
        _skip(self.file, offset)
        yield from _cut(self.file, offset)


@dataclass(frozen=True)
class Turn:
    """One side's text, or with no side text that nobody says. `text` are its source bytes."""

    side: Side | None
    text: bytes

    def parts(self) -> list[bytes | int]:
        return [self.text] if self.side is None else [ROLE[self.side], self.text, TURN]


def _skip(file: BinaryIO, count: int) -> None:
    if count and file.seekable():
        file.seek(count)
        return
    while count:
        block = file.read(min(count, SEGMENT_BYTES))
        if not block:
            raise EOFError("it is shorter than the place that was reached in it")
        count -= len(block)


def _cut(file: BinaryIO, offset: int) -> Iterator[Segment]:
    """Segments of at most SEGMENT_BYTES. Where each ends depends on nothing before its begin."""
    kept = b""
    while True:
        block = kept + _read(file, SEGMENT_BYTES - len(kept))
        if not block:
            return
        is_last = len(block) < SEGMENT_BYTES
        end = len(block) if is_last else _end(block)
        yield Segment(offset, [block[:end]])
        offset += end
        kept = block[end:]


def _read(file: BinaryIO, count: int) -> bytes:
    """`count` bytes, fewer at the end alone: a pipe gives what it has."""
    parts = []
    while count and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _end(block: bytes) -> int:
    """Where to cut a block that goes on: at white space, else before a character that may not be whole."""
    found = _CUT.match(block)
    if found:
        return found.end()
    start = len(block) - 1
    while start > len(block) - 4 and block[start] & 0xC0 == 0x80:
        start -= 1
    return start


def _unpacked(raw: BinaryIO) -> AbstractContextManager[BinaryIO]:
    mark = raw.read(4)
    raw.seek(0)
    if mark.startswith(_GZIP):
        return cast(AbstractContextManager[BinaryIO], gzip.GzipFile(fileobj=raw))
    if mark == _ZSTD:
        import pyarrow as pa

        return cast(
            AbstractContextManager[BinaryIO],
            io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")),
        )
    return nullcontext(raw)
