"""What a file's header says about its length, read by us because libsndfile corrects it silently.

Nothing here is trusted: a claim is only compared with what the decoder delivers, so that audio that is
missing, or that lies behind a wrong header, is reported instead of lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_CHUNKS = 1_000
_PCM_TAGS = {1, 3, 6, 7}  # PCM, IEEE float, A-law, µ-law: one block is one sample of every channel
_BLOCK_TAGS = {0x02, 0x11, 0x31}  # MS and IMA ADPCM, GSM 6.10: blocks of a fixed number of samples
_EXTENSIBLE = 0xFFFE
_TAGS_OF_OTHERS = (b"ID3", b"TAG", b"APETAGEX")
_AU_BYTES = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}


@dataclass(frozen=True)
class LengthClaim:
    """Samples per channel that a header declares, or None where it says that it does not know.

    `is_placeholder`: the number is what a program writes that cannot go back to correct it.
    `audio_behind`: audio seems to go on behind the part that the header declares.
    """

    samples: int | None
    is_placeholder: bool = False
    audio_behind: bool = False


def read_claim(path: Path) -> LengthClaim | None:
    """The claim of a WAV, RF64, AIFF, AU or NIST SPHERE header; None for other or damaged headers."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(12)
        try:
            return _reader(magic)(file, size)
        except struct.error:
            return None


def _reader(magic: bytes) -> Callable[[BinaryIO, int], LengthClaim | None]:
    if magic[:4] in (b"RIFF", b"RIFX", b"RF64") and magic[8:] == b"WAVE":
        return _wav
    if magic[:4] == b"FORM" and magic[8:] == b"AIFF":
        return _aiff
    if magic[:4] == b".snd":
        return _au
    if magic[:7] == b"NIST_1A":
        return _nist
    return lambda file, size: None


def _wav(file: BinaryIO, size: int) -> LengthClaim | None:
    file.seek(0)
    magic = file.read(4)
    order = ">" if magic == b"RIFX" else "<"
    position, tag, block_bytes, block_samples, long_bytes = 12, 0, 0, 1, None
    for _ in range(MAX_CHUNKS):
        file.seek(position)
        name, chunk_bytes = struct.unpack(order + "4sI", file.read(8))
        body = file.read(min(chunk_bytes, 40)) if name != b"data" else b""
        if name == b"fmt ":
            tag, _channels, _rate, _bytes_per_s, block_bytes = struct.unpack(order + "HHIIH", body[:14])
            if tag == _EXTENSIBLE:
                (tag,) = struct.unpack(order + "H", body[24:26])
            elif tag in _BLOCK_TAGS:
                (block_samples,) = struct.unpack(order + "H", body[18:20])
        elif name == b"ds64":
            (long_bytes,) = struct.unpack(order + "Q", body[8:16])
        elif name == b"data":
            break
        position += 8 + chunk_bytes + chunk_bytes % 2
    else:
        return None
    if chunk_bytes == 0xFFFFFFFF and long_bytes is not None:
        chunk_bytes = long_bytes
    start = position + 8
    placeholder = _is_placeholder(chunk_bytes, start, size)
    if tag not in _PCM_TAGS | _BLOCK_TAGS or block_bytes == 0:
        return None
    end = start + chunk_bytes
    behind = size - end >= block_bytes and not _ends_in_chunks(file, end + chunk_bytes % 2, size, order)
    return LengthClaim(chunk_bytes // block_bytes * block_samples, placeholder, behind)


def _is_placeholder(data_bytes: int, start: int, size: int) -> bool:
    """Whether a data size is what programs write that cannot go back to correct it.

    0, 2³¹ and 2³² (each less some header bytes) are in use, and 2⁶⁴ in RF64.
    """
    if start + data_bytes <= size:
        return data_bytes == 0
    return (
        0x7FFFF000 <= data_bytes <= 0x80000000
        or 0xFFFFF000 <= data_bytes <= 0xFFFFFFFF
        or data_bytes >= 0x7FFFFFFFFFFFF000
    )


def _ends_in_chunks(file: BinaryIO, position: int, size: int, order: str) -> bool:
    """Whether what follows the data is metadata or padding. Else it is audio that the header forgot."""
    file.seek(position)
    head = file.read(64)
    if head.startswith(_TAGS_OF_OTHERS) or not any(head):
        return True
    for _ in range(MAX_CHUNKS):
        if size - position < 8:
            return True
        file.seek(position)
        name, chunk_bytes = struct.unpack(order + "4sI", file.read(8))
        if not all(0x20 <= byte < 0x7F for byte in name) or position + 8 + chunk_bytes > size:
            return False
        position += 8 + chunk_bytes + chunk_bytes % 2
    return True


def _aiff(file: BinaryIO, size: int) -> LengthClaim | None:
    position = 12
    for _ in range(MAX_CHUNKS):
        file.seek(position)
        name, chunk_bytes = struct.unpack(">4sI", file.read(8))
        if name == b"COMM":
            _channels, samples = struct.unpack(">HI", file.read(6))
            return LengthClaim(samples)
        position += 8 + chunk_bytes + chunk_bytes % 2
    return None


def _au(file: BinaryIO, size: int) -> LengthClaim | None:
    file.seek(8)
    data_bytes, encoding, _rate, channels = struct.unpack(">IIII", file.read(16))
    if encoding not in _AU_BYTES or channels == 0:
        return None
    return LengthClaim(None if data_bytes == 0xFFFFFFFF else data_bytes // (_AU_BYTES[encoding] * channels))


def _nist(file: BinaryIO, size: int) -> LengthClaim | None:
    file.seek(0)
    for line in file.read(1024).splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == b"sample_count" and words[2].isdigit():
            return LengthClaim(int(words[2][:18]))
    return None
