"""Two decoders behind one shape: libsndfile (soundfile) first, FFmpeg (PyAV) for what it refuses.

Both deliver float32 pieces [channels, n] at the file's own rate, in pieces of whatever size is natural;
`source.BlockReader` cuts them into blocks. A decoder that breaks off raises DecodeStopped after it has
delivered everything before the fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.av_file import open_av, packets_of
from inkplex_data.audio.files.flac_frames import numbered_frames
from inkplex_data.audio.files.mpeg_frames import looks_like_mpeg
from inkplex_data.audio.files.packet_scan import GarbageMeter
from inkplex_data.audio.files.time_stamps import Timeline

Samples = npt.NDArray[np.float32]

READ_SAMPLES = 4_096

# Containers whose packets say when they belong. Others are counted, be it by FFmpeg.
STAMPED = frozenset({"asf", "flac", "flv", "matroska", "mov", "mpeg", "mpegts", "ogg"})
# Formats without a word of their length, which FFmpeg then estimates.
_ESTIMATED = frozenset({"aac", "ac3", "amr", "mp3", "mpeg", "mpegts"})
# What may be missing inside a file, all holes together. A stamp can claim any time.
MAX_FILLED_S = 3_600

_STDERR = Lock()
_INTEGER_SCALES = {"u8": 2.0**7, "s16": 2.0**15, "s32": 2.0**31, "s64": 2.0**63}


@dataclass(frozen=True)
class Jump:
    """Between two pieces: samples that are missing, or how many of the next ones were left out as there already."""

    missing: int
    overlap: int


Piece = Samples | Jump


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
    is_only_track: bool = True


# --- libsndfile ---------------------------------------------------------------------------------------


@contextmanager
def _open_soundfile(path: Path) -> Iterator[Any]:
    import soundfile

    # By descriptor: libsndfile then cannot guess a headerless format from the name, and any name works.
    with path.open("rb") as handle:
        with _unheard() if looks_like_mpeg(path) else nullcontext():
            file = soundfile.SoundFile(handle.fileno(), closefd=False)
        with file:
            yield file


@contextmanager
def _unheard() -> Iterator[None]:
    """Nothing reaches the terminal: libmpg123 writes there, past Python, without the name of the file."""
    with _STDERR:
        try:
            saved = os.dup(2)
        except OSError:  # the process has none
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(nowhere)
            os.close(saved)


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
                with _unheard() if file.format == "MP3" else nullcontext():
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


# --- FFmpeg -------------------------------------------------------------------------------------------


def probe_av(path: Path) -> Probe | str:
    """What FFmpeg finds, or the sentence with which it declines."""
    import av

    try:
        with open_av(path) as container:
            tracks = container.streams.audio
            if not tracks:
                return "FFmpeg finds no audio track in it"
            track = tracks[0]
            codec = track.codec_context
            if codec is None:
                return "FFmpeg has no decoder for it"
            declared = None
            family = container.format.name.split(",")[0]
            if (
                family not in _ESTIMATED
                and track.duration is not None
                and track.time_base is not None
                and codec.sample_rate
            ):
                declared = round(track.duration * track.time_base * codec.sample_rate)
            if not codec.channels or not codec.sample_rate:
                return "FFmpeg finds neither channels nor a sample rate"
            return Probe(
                channels=codec.channels,
                sample_rate_hz=codec.sample_rate,
                declared_samples=declared if declared is not None and declared >= 0 else None,
                container=f"{family}/{codec.name}",
                tracks=len(tracks),
                is_only_track=len(container.streams) == 1,
            )
    except (av.FFmpegError, OSError, ValueError) as error:
        return f"FFmpeg: {getattr(error, 'strerror', None) or error}"


def av_pieces(
    path: Path, probe: Probe, *, ignore_length: bool = False, lost_packet_bytes: float | None = None
) -> Iterator[Piece]:
    """Decode the first audio track by its time stamps, past damaged packets.

    `lost_packet_bytes`: how many damaged bytes of an MP3 stream, whose packets have no stamps of their own, stand
    for one lost frame.
    """
    with open_av(path, ignore_length=ignore_length) as container:
        track = container.streams.audio[0]
        family = container.format.name.split(",")[0]
        decoder = _Decoder(track, family, lost_packet_bytes)
        filled = 0
        for packet in packets_of(container, track):
            for frame in decoder.frames(packet):
                if frame.sample_rate != probe.sample_rate_hz or frame.layout.nb_channels != probe.channels:
                    raise DecodeStopped(
                        f"the sound changes to {frame.layout.nb_channels} channels at {frame.sample_rate} Hz",
                        recoverable=False,
                    )
                missing, overlap = decoder.place(frame)
                filled += missing
                if filled > MAX_FILLED_S * probe.sample_rate_hz:
                    raise DecodeStopped(
                        f"{filled / probe.sample_rate_hz:,.0f} s are missing by its time stamps",
                        recoverable=False,
                    )
                if missing or overlap:
                    yield Jump(missing, overlap)
                if overlap < frame.samples:
                    yield _float_samples(frame)[:, overlap:]
    if decoder.fault is not None:
        raise DecodeStopped(decoder.fault)


class _Decoder:
    """Frames of one track's packets, and where they belong. `fault`: why what came last did not decode."""

    def __init__(self, track: Any, family: str, lost_packet_bytes: float | None) -> None:
        self.fault: str | None = None
        self._codec = track.codec_context
        self._tick_s = track.time_base
        self._is_flac = family == "flac"
        self._is_stamped = family in STAMPED
        self._meter = GarbageMeter() if family == "mp3" else None
        self._lost_packet_bytes = lost_packet_bytes
        self._lost_frames = 0
        self._timeline: Timeline | None = None
        if self._codec.name == "flac":
            # Else what is damaged comes out as noise.
            self._codec.options = {"err_detect": "crccheck+explode"}

    def frames(self, packet: Any) -> Iterator[Any]:
        """Decode one packet, or note the sentence that stands for one that could not be read."""
        if isinstance(packet, str):
            self.fault = self.fault or packet
            return
        if self._meter is not None and packet.size:
            run = self._meter.push(bytes(packet))
            if run is None:
                return
            if run and self._lost_packet_bytes is None:
                raise DecodeStopped(f"{run:,} bytes are damaged", recoverable=False)
            self._lost_frames += round(run / self._lost_packet_bytes) if self._lost_packet_bytes else 0
        import av

        is_damaged = self._is_flac and packet.size and packet.pts is None
        for whole in self._undamaged(packet) if is_damaged else [packet]:
            try:
                found = self._codec.decode(whole)
            except (av.FFmpegError, OSError) as error:
                self.fault = self.fault or f"FFmpeg: {error.strerror}"
                continue
            for frame in found:
                if self.fault is not None and not self._is_stamped:
                    raise DecodeStopped(self.fault, recoverable=False)
                self.fault = None
                yield frame

    def place(self, frame: Any) -> tuple[int, int]:
        """Samples missing before a frame, and how many of its first ones were there before."""
        lost, self._lost_frames = self._lost_frames * frame.samples, 0
        if lost or not self._is_stamped:
            return lost, 0
        if self._timeline is None:
            self._timeline = Timeline(frame.sample_rate, self._tick_s)
        return self._timeline.place(frame.pts, frame.samples)

    def _undamaged(self, packet: Any) -> Iterator[Any]:
        """The frames of a packet whose damage keeps FFmpeg from telling them apart, each with its place."""
        import av

        block_samples = int.from_bytes((self._codec.extradata or b"")[:2], "big")
        for number, data in numbered_frames(bytes(packet), block_samples):
            whole = av.Packet(data)
            whole.time_base = self._tick_s
            whole.pts = round(number / self._codec.sample_rate / self._tick_s)
            yield whole


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
