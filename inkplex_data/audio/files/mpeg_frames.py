"""Headers of MPEG audio frames (ISO/IEC 11172-3, 13818-3), read by us: they tell frames from damaged bytes, and a length
that the file states from one that a library estimates."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEADER_BYTES: Final = 4
_SEARCHED_BYTES: Final = 65_536
_KBPS: Final = {
    # MPEG-1 layers 1, 2, 3; MPEG-2 and 2.5 layer 1, then layers 2 and 3
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ: Final = (44_100, 48_000, 32_000)


@dataclass(frozen=True)
class FrameHeader:
    """Size and length of one frame, header included. `side_bytes`: the side information of layer 3."""

    frame_bytes: int
    samples: int
    side_bytes: int


def frame_header(head: bytes) -> FrameHeader | None:
    """What the first four bytes of a frame say; None where they are no header, or of free format."""
    if len(head) < HEADER_BYTES or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer = head[1] >> 3 & 3, 4 - (head[1] >> 1 & 3)
    rate_code, kbps_code = head[2] >> 2 & 3, head[2] >> 4
    if version == 1 or layer == 4 or rate_code == 3 or kbps_code in (0, 15):
        return None
    is_first = version == 3
    rate_hz = _RATES_HZ[rate_code] >> (0 if is_first else 1 if version == 2 else 2)
    samples = 384 if layer == 1 else 576 if layer == 3 and not is_first else 1_152
    slot_bytes = 4 if layer == 1 else 1
    slots = samples // (8 * slot_bytes) * 1_000 * _KBPS[is_first, layer][kbps_code] // rate_hz
    is_mono = head[3] >> 6 == 3
    side_bytes = (17 if is_mono else 32) if is_first else (9 if is_mono else 17)
    return FrameHeader((slots + (head[2] >> 1 & 1)) * slot_bytes, samples, side_bytes)


def looks_like_mpeg(path: Path) -> bool:
    """Whether a file begins as MP3 files do: with an ID3 tag or with a frame."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
    return head[:3] == b"ID3" or frame_header(head) is not None


@dataclass(frozen=True)
class LengthTag:
    """What a Xing, Info or VBRI tag says of the whole file; None for what it leaves out.

    `samples` is what an encoder was given: all frames less the delay and the padding that LAME notes.
    """

    frames: int | None
    stream_bytes: int | None
    samples: int | None
    start: int
    """Where the frame that holds the tag begins, in bytes of the file."""


def read_length_tag(path: Path) -> LengthTag | None:
    """The tag in the first frame of an MP3 file; None where there is none."""
    with path.open("rb") as file:
        start = 0
        head = file.read(10)
        if head[:3] == b"ID3" and len(head) == 10:
            # Seven bits a byte; the tag's own header does not count itself.
            start = 10 + sum(byte << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
            start += 10 if head[5] & 0x10 else 0
        file.seek(start)
        raw = file.read(_SEARCHED_BYTES)
    for at in range(len(raw) - HEADER_BYTES):
        header = frame_header(raw[at : at + HEADER_BYTES]) if raw[at] == 0xFF else None
        if header is not None:
            return _length_tag(raw[at : at + header.frame_bytes], header, start + at)
    return None


def _length_tag(frame: bytes, header: FrameHeader, start: int) -> LengthTag | None:
    try:
        at = HEADER_BYTES + header.side_bytes
        if frame[at : at + 4] in (b"Xing", b"Info"):
            (flags,) = struct.unpack_from(">I", frame, at + 4)
            at += 8
            values: dict[int, int] = {}
            for bit, size in ((1, 4), (2, 4), (4, 100), (8, 4)):
                if flags & bit:
                    values[bit] = int.from_bytes(frame[at : at + min(size, 4)], "big")
                    at += size
            trim = int.from_bytes(frame[at + 21 : at + 24], "big") if frame[at : at + 4].isalnum() else 0
            return _tag(values.get(1), values.get(2), header, start, (trim >> 12) + (trim & 0xFFF))
        if frame[36:40] == b"VBRI":
            stream_bytes, frames = struct.unpack_from(">II", frame, 46)
            return _tag(frames, stream_bytes, header, start, 0)
    except struct.error:
        pass
    return None


def _tag(
    frames: int | None, stream_bytes: int | None, header: FrameHeader, start: int, trim: int
) -> LengthTag:
    samples = max(frames * header.samples - trim, 0) if frames else None
    return LengthTag(frames or None, stream_bytes or None, samples, start)
