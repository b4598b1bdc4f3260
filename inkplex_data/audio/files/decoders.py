"""Two decoders behind one shape: libsndfile (soundfile) first, FFmpeg (PyAV) for what it refuses.

Both deliver float32 pieces [channels, n] at the file's own rate, in pieces of whatever size is natural;
`source.BlockReader` cuts them into blocks. A decoder that breaks off raises DecodeStopped after it has
delivered everything before the fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

READ_SAMPLES = 4_096

# Containers that FFmpeg recognises by their content. Play lists, which open other files, and headerless
# formats, which are guessed from the name, stay out.
FFMPEG_FORMATS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,flac,flv,matroska,mov,mp3,mp4,mpeg,mpegts,nistsphere,ogg,shn,tta,voc,"
    "w64,wav,webm,wv,xwma"
)

_INTEGER_SCALES = {"u8": 2.0**7, "s16": 2.0**15, "s32": 2.0**31, "s64": 2.0**63}


class DecodeStopped(Exception):
    """Decoding broke off. `recoverable` is False where samples are missing from the middle."""

    def __init__(self, reason: str, *, recoverable: bool = True) -> None:
        self.reason = reason
        self.recoverable = recoverable
        super().__init__(reason)


@dataclass(frozen=True)
class Probe:
    """What a decoder says about a file before it decodes any of it."""

    channels: int
    sample_rate_hz: int
    declared_samples: int | None
    container: str
    tracks: int = 1


# --- libsndfile ---------------------------------------------------------------------------------------


@contextmanager
def _open_soundfile(path: Path) -> Iterator[Any]:
    import soundfile

    # By descriptor: libsndfile then cannot guess a headerless format from the name, and any name works.
    with path.open("rb") as handle, soundfile.SoundFile(handle.fileno(), closefd=False) as file:
        yield file


def probe_soundfile(path: Path) -> Probe | None:
    """None where libsndfile does not take the file."""
    import soundfile

    try:
        with _open_soundfile(path) as file:
            return Probe(
                channels=file.channels,
                sample_rate_hz=file.samplerate,
                declared_samples=file.frames if 0 <= file.frames < 2**62 else None,
                container=f"{file.format}/{file.subtype}",
            )
    except soundfile.LibsndfileError:
        return None


def soundfile_pieces(path: Path) -> Iterator[Samples]:
    import soundfile

    with _open_soundfile(path) as file:
        buffer = np.empty((READ_SAMPLES, file.channels), np.float32)
        while True:
            buffer[:, 0] = np.nan
            try:
                # `out=` because read(n) stops at the length that the header declares.
                piece = file.read(out=buffer)
            except soundfile.LibsndfileError as error:
                # What was decoded before the fault lies in the buffer, uncounted.
                unwritten = np.isnan(buffer[:, 0])
                done = int(np.argmax(unwritten)) if unwritten.any() else READ_SAMPLES
                yield buffer[:done].T.copy()
                raise DecodeStopped(f"libsndfile: {error.error_string.rstrip('.')}") from error
            if len(piece) == 0:
                return
            yield piece.T.copy()  # the buffer is used again


# --- FFmpeg (reads and seeks through a Python file also raise plain OSError) ------------------------


@contextmanager
def _open_av(path: Path, *, ignore_length: bool = False) -> Iterator[Any]:
    import av

    options = {"format_whitelist": FFMPEG_FORMATS, "protocol_whitelist": "file"}
    if ignore_length:
        options["ignore_length"] = "1"
    # A handle, not a name: names are taken for protocols ("concat:…") and must be UTF-8.
    with path.open("rb") as handle, av.open(handle, options=options, metadata_errors="ignore") as container:
        yield container


def probe_av(path: Path) -> Probe | str:
    """What FFmpeg finds, or the sentence with which it declines."""
    import av

    try:
        with _open_av(path) as container:
            tracks = container.streams.audio
            if not tracks:
                return "FFmpeg finds no audio track in it"
            track = tracks[0]
            codec = track.codec_context
            if codec is None:
                return "FFmpeg has no decoder for it"
            declared = None
            if track.duration is not None and track.time_base is not None and codec.sample_rate:
                declared = round(track.duration * track.time_base * codec.sample_rate)
            if not codec.channels or not codec.sample_rate:
                return "FFmpeg finds neither channels nor a sample rate"
            return Probe(
                channels=codec.channels,
                sample_rate_hz=codec.sample_rate,
                declared_samples=declared if declared is not None and declared >= 0 else None,
                container=f"{container.format.name.split(',')[0]}/{codec.name}",
                tracks=len(tracks),
            )
    except (av.FFmpegError, OSError, ValueError) as error:
        return f"FFmpeg: {getattr(error, 'strerror', None) or error}"


def packets_exceed(path: Path, samples: int, sample_rate_hz: int) -> bool:
    """Whether the packets of a file hold more than `samples`, or break off; decodes nothing.

    Encoder delay and padding, up to three packets, do not count. False where FFmpeg does not take the file.
    """
    import av

    total = longest = 0
    broken = False
    try:
        with _open_av(path) as container:
            track = container.streams.audio[0]
            scale = track.time_base * sample_rate_hz
            try:
                for packet in container.demux(track):
                    total += packet.duration or 0
                    longest = max(longest, packet.duration or 0)
            except (av.FFmpegError, OSError):
                broken = True
    except (av.FFmpegError, OSError, IndexError, ValueError, TypeError):
        return False
    return broken or (total - 3 * longest) * scale > samples


def av_pieces(path: Path, probe: Probe, *, ignore_length: bool = False) -> Iterator[Samples]:
    import av

    fault: str | None = None
    with _open_av(path, ignore_length=ignore_length) as container:
        packets = container.demux(container.streams.audio[0])
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                frames = packet.decode()
            except (av.FFmpegError, OSError) as error:
                fault = fault or f"FFmpeg: {error.strerror}"
                continue
            for frame in frames:
                if fault is not None:
                    raise DecodeStopped(fault, recoverable=False)
                if frame.sample_rate != probe.sample_rate_hz or frame.layout.nb_channels != probe.channels:
                    raise DecodeStopped(
                        f"the sound changes to {frame.layout.nb_channels} channels at {frame.sample_rate} Hz",
                        recoverable=False,
                    )
                yield _float_samples(frame)
    if fault is not None:
        raise DecodeStopped(fault)


def _float_samples(frame: Any) -> Samples:
    values = frame.to_ndarray()
    name = frame.format.name
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    scale = _INTEGER_SCALES.get(name.removesuffix("p"))
    if scale is not None:
        values = values.astype(np.float64)
        values = (values - scale if name.startswith("u8") else values) / scale
    return np.ascontiguousarray(values, np.float32)
