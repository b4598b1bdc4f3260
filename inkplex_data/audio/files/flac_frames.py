"""FLAC frames within bytes in which some are damaged: each intact header says where its frame belongs (RFC 9639)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_POLYNOMIAL: Final = 0x07
_LONGEST_HEADER_BYTES: Final = 16


def _crc8(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1) ^ (_POLYNOMIAL if byte & 0x80 else 0)
    return byte & 0xFF


_CRC8: Final = tuple(map(_crc8, range(256)))


def numbered_frames(data: bytes, block_samples: int) -> Iterator[tuple[int, bytes]]:
    """Cut `data` at every intact frame header: (number of the frame's first sample, its bytes).

    `block_samples`: samples of every frame but the last one, for streams that count frames. What lies before
    the first header is left out; what is damaged behind a header is the decoder's to find, by the frame's checksum.
    """
    found: list[tuple[int, int]] = []
    at = data.find(b"\xff")
    while at >= 0:
        number = _first_sample(data[at : at + _LONGEST_HEADER_BYTES], block_samples)
        if number is not None:
            found.append((at, number))
        at = data.find(b"\xff", at + 1)
    for (start, number), (end, _) in pairwise([*found, (len(data), 0)]):
        yield number, data[start:end]


def _first_sample(head: bytes, block_samples: int) -> int | None:
    """Number of the first sample of the frame whose header `head` begins with; None where that is no header."""
    if len(head) < 6 or head[1] & 0xFE != 0xF8 or head[3] & 1:
        return None
    block_code, rate_code = head[2] >> 4, head[2] & 15
    if block_code == 0 or rate_code == 15 or head[3] >> 4 > 10:
        return None
    # The number is coded as UTF-8 codes characters, up to 36 bits.
    leading = 8 - (~head[4] & 0xFF).bit_length()
    more = max(leading - 1, 0)
    number = head[4] & (0x7F >> leading)
    for byte in head[5 : 5 + more]:
        number = number << 6 | byte & 0x3F
    end = 5 + more + {6: 1, 7: 2}.get(block_code, 0) + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    crc = 0
    for byte in head[:end]:
        crc = _CRC8[crc ^ byte]
    if leading in (1, 8) or end >= len(head) or crc != head[end]:
        return None
    return number if head[1] & 1 else number * block_samples
