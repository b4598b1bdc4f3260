"""What the packets of a compressed file say of its length and its holes, without decoding any of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from inkplex_data.audio.files.av_file import open_av, packets_of
from inkplex_data.audio.files.mpeg_frames import LengthTag, frame_header, read_length_tag
from inkplex_data.audio.files.time_stamps import Timeline

_TAGS: Final = (b"ID3", b"TAG", b"APETAGEX")
_XING_TOLERANCE: Final = 0.01


@dataclass(frozen=True)
class PacketScan:
    """`ticks` × `tick_s` is what the packets hold in seconds, less encoder delay and padding of up to three packets.

    `is_broken`: bytes are damaged, or stamps jump, so that something is missing inside. `lost_packet_bytes`: how many
    damaged bytes of an MP3 file stand for one lost frame, None where nothing tells. `stated_samples`: the length of an MP3
    file by its own word, encoder delay and padding left out; None where a library could only estimate it. `cut`: what shows that its end is missing.
    """

    ticks: int = 0
    tick_s: Fraction = Fraction(0)
    is_broken: bool = False
    lost_packet_bytes: float | None = None
    stated_samples: int | None = None
    cut: str | None = None

    def exceeds(self, samples: int, sample_rate_hz: int) -> bool:
        """Whether the packets hold more than `samples`."""
        return self.ticks * self.tick_s * sample_rate_hz > samples


class GarbageMeter:
    """Tells the frames of an MP3 stream from what lies between them."""

    def __init__(self) -> None:
        self.frames = 0
        self.garbage_bytes = 0
        """Between frames, in all."""
        self.sizes: set[int] = set()
        self.ends_in_frame = True
        """Whether what came last is a whole frame, or at least no beginning of one."""
        self._run = 0

    def push(self, data: bytes) -> int | None:
        """Take in a packet. None where it is no frame, else the damaged bytes between it and the frame before."""
        header = frame_header(data[:4])
        self.ends_in_frame = header is None or header.frame_bytes <= len(data)
        if header is None or header.frame_bytes != len(data):
            if not data.startswith(_TAGS):
                self._run += len(data)
            return None
        run = self._run if self.frames else 0
        self._run = 0
        self.frames += 1
        self.garbage_bytes += run
        self.sizes.add(len(data))
        return run


def scan_packets(path: Path, *, is_mpeg: bool) -> PacketScan:
    """Go through the first audio track of a file; an empty scan where FFmpeg does not take the file."""
    import av

    ticks = longest = 0
    is_broken = False
    meter = GarbageMeter()
    try:
        with open_av(path) as container:
            track = container.streams.audio[0]
            codec = track.codec_context
            timeline = Timeline(codec.sample_rate, track.time_base)
            is_flac = container.format.name == "flac"
            for packet in packets_of(container, track):
                if isinstance(packet, str):
                    is_broken = True
                    continue
                if not packet.size:
                    continue
                duration = packet.duration or 0
                ticks += duration
                longest = max(longest, duration)
                if is_mpeg:
                    meter.push(bytes(packet))
                elif packet.pts is None:
                    is_broken |= is_flac
                else:
                    samples = round(duration * track.time_base * codec.sample_rate)
                    is_broken |= timeline.place(packet.pts, samples) != (0, 0)
            found = PacketScan(max(ticks - 3 * longest, 0), track.time_base, is_broken)
    except (av.FFmpegError, OSError, IndexError, ValueError, TypeError, ZeroDivisionError):
        return PacketScan()
    return _mpeg(path, found, meter, read_length_tag(path)) if is_mpeg else found


def _mpeg(path: Path, found: PacketScan, meter: GarbageMeter, tag: LengthTag | None) -> PacketScan:
    frames = tag.frames if tag is not None else None
    stream_bytes = tag.stream_bytes if tag is not None else None
    start = tag.start if tag is not None else 0
    held_bytes = path.stat().st_size - start
    is_cut = stream_bytes is not None and held_bytes < (1 - _XING_TOLERANCE) * stream_bytes
    is_longer = (
        stream_bytes is not None
        and held_bytes > (1 + _XING_TOLERANCE) * stream_bytes
        and not _ends_in_tag(path)
    )
    lost = frames - meter.frames if frames else 0
    # Frames that the file's end lacks are no frames of a hole, and only a file that was cut ends within one.
    each: float | None = None
    if lost > 0 and meter.garbage_bytes and meter.ends_in_frame:
        each = meter.garbage_bytes / lost
    elif meter.sizes and max(meter.sizes) - min(meter.sizes) <= 1:
        each = sum(meter.sizes) / len(meter.sizes)
    elif frames and stream_bytes:
        each = stream_bytes / frames
    return replace(
        found,
        # libmpg123 writes to the terminal of what it finds odd, so files of which that is known are FFmpeg's.
        is_broken=found.is_broken or meter.garbage_bytes > 0 or is_cut or is_longer,
        lost_packet_bytes=each or None,
        stated_samples=tag.samples if tag is not None else None,
        cut=None if meter.ends_in_frame else "its last frame is cut",
    )


def _ends_in_tag(path: Path) -> bool:
    """Whether an ID3v1 or APE tag follows the audio, as large as its picture may be."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 160, 0))
        end = file.read(160)
    return b"APETAGEX" in end or end[-128:-125] == b"TAG"
