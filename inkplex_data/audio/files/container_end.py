"""Whether a compressed file was cut off, by what its container says of itself, and for how long it says to last.

Matroska and WebM state the bytes of their segment and its duration, MP4 the bytes of every box, and Ogg marks its last
page. A recorder that writes to a stream can state none of these, and then nothing can be told.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_MOST_ELEMENTS: Final = 1_000
_LONGEST_PAGE_BYTES: Final = 65_307
_LAST_PAGE: Final = 4
_EBML, _SEGMENT, _INFO, _SCALE, _DURATION = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x2AD7B1, 0x4489
_CLUSTER: Final = 0x1F43B675


@dataclass(frozen=True)
class ContainerEnd:
    """`cut`: what shows that the end of the file is missing, None where nothing does. `duration_s`: of the longest track."""

    cut: str | None = None
    duration_s: float | None = None


def read_end(path: Path) -> ContainerEnd:
    """What the container says of its end; an empty answer for other or damaged containers."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(8)
        try:
            if magic[:4] == b"OggS":
                return ContainerEnd(_ogg_cut(file, size))
            if magic[:4] == _EBML.to_bytes(4, "big"):
                return _matroska(file, size)
            if magic[4:] == b"ftyp":
                return ContainerEnd(_mp4_cut(file, size))
        except (struct.error, IndexError, OSError):
            pass
    return ContainerEnd()


def _ogg_cut(file: BinaryIO, size: int) -> str | None:
    start = max(size - 2 * _LONGEST_PAGE_BYTES, 0)
    file.seek(start)
    raw = file.read(2 * _LONGEST_PAGE_BYTES)
    at = raw.rfind(b"OggS")
    while at >= 0 and (len(raw) - at < 28 or raw[at + 4] != 0):
        at = raw.rfind(b"OggS", 0, at)
    if at < 0:
        return None
    lacing = raw[at + 27 : at + 27 + raw[at + 26]]
    if len(lacing) < raw[at + 26] or at + 27 + len(lacing) + sum(lacing) > len(raw):
        return "its last page is cut"
    return None if raw[at + 5] & _LAST_PAGE else "it lacks the page that ends the stream"


def _matroska(file: BinaryIO, size: int) -> ContainerEnd:
    element, start, length = _element(file, 0)
    element, start, length = _element(file, start + (length or 0))
    if element != _SEGMENT:
        return ContainerEnd()
    cut = None
    if length is not None and start + length > size:
        cut = f"it declares {start + length:,} bytes and has {size:,}"
    end = size if length is None else min(start + length, size)
    position = start
    for _ in range(_MOST_ELEMENTS):
        if position >= end:
            break
        element, start, length = _element(file, position)
        if element == _INFO and length is not None:
            return ContainerEnd(cut, _duration_s(file, start, min(start + length, end)))
        if element == _CLUSTER or length is None:
            break
        position = start + length
    return ContainerEnd(cut)


def _duration_s(file: BinaryIO, position: int, end: int) -> float | None:
    scale_ns, duration = 1_000_000, None
    for _ in range(_MOST_ELEMENTS):
        if position >= end:
            break
        element, start, length = _element(file, position)
        if length is None:
            break
        file.seek(start)
        if element == _SCALE:
            scale_ns = int.from_bytes(file.read(min(length, 8)), "big")
        elif element == _DURATION and length in (4, 8):
            (duration,) = struct.unpack(">f" if length == 4 else ">d", file.read(length))
        position = start + length
    seconds = duration * scale_ns / 1e9 if duration is not None else 0.0
    return seconds if 0 < seconds < 1e7 else None


def _element(file: BinaryIO, position: int) -> tuple[int, int, int | None]:
    """Id of the EBML element at `position`, where its body begins and its length, None where that is unknown (RFC 8794)."""
    file.seek(position)
    head = file.read(12)
    id_bytes = 9 - head[0].bit_length()
    size_bytes = 9 - head[id_bytes].bit_length()
    if id_bytes > 4 or size_bytes > 8 or len(head) < id_bytes + size_bytes:
        raise IndexError("no element")
    field = int.from_bytes(head[id_bytes : id_bytes + size_bytes], "big")
    unknown = (1 << 7 * size_bytes) - 1
    length = field & unknown
    body = position + id_bytes + size_bytes
    return int.from_bytes(head[:id_bytes], "big"), body, None if length == unknown else length


def _mp4_cut(file: BinaryIO, size: int) -> str | None:
    position = 0
    for _ in range(_MOST_ELEMENTS):
        if size - position < 8:
            return None
        file.seek(position)
        head = file.read(16)
        length, name = struct.unpack(">I4s", head[:8])
        if length == 1:
            (length,) = struct.unpack(">Q", head[8:16])
        if length == 0 or (length < 8 or not all(0x20 <= byte < 0x7F for byte in name)):
            return None
        position += length
        if position > size:
            return f"it declares {position:,} bytes and has {size:,}"
    return None
