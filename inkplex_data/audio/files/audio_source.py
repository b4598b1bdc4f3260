"""One audio file, decoded by blocks in flat memory. What its header claims is compared, never believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from inkplex_data.audio.files.blocks import BlockReader
from inkplex_data.audio.files.container_end import read_end
from inkplex_data.audio.files.declared_length import read_claim
from inkplex_data.audio.files.decoders import (
    Piece,
    Probe,
    av_pieces,
    probe_av,
    probe_soundfile,
    soundfile_pieces,
)
from inkplex_data.audio.files.mpeg_frames import looks_like_mpeg
from inkplex_data.audio.files.packet_scan import PacketScan, scan_packets
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.problems import refusal

BLOCK_SAMPLES = 262_144
MIN_RATE_HZ = 4_000
MAX_RATE_HZ = 768_000
MAX_CHANNELS = 64

# Names that people give to samples without a header.
_HEADERLESS = "ulaw ul mulaw pcmu alaw al pcma g711 raw pcm sln sln16 s16 s16le f32 vox gsm g722 g729"
_HEADERLESS_SUFFIXES = frozenset(f".{name}" for name in _HEADERLESS.split())

_WAV_MAGIC = (b"RIFF", b"RIFX", b"RF64", b"riff")


@dataclass(frozen=True)
class AudioSource:
    """One audio file that a decoder takes. Holds no open file, so it can be sent to another process.

    `declared_samples` is what the header says, per channel, or None where it says nothing;
    `is_placeholder` where that number is one that programs write before they know the length, or that a library
    estimates; `is_rounded` where it is a duration that counts encoder delay. `tracks` counts the audio tracks of the file; the first is used. `is_only_track`: there is no video
    beside it either. `lost_packet_bytes`: how many damaged
    bytes stand for one lost frame of an MP3 file, None where nothing is damaged or nothing tells.
    `cut` says by what the file shows that its end is missing, None where it does not.
    """

    path: Path
    channels: int
    sample_rate_hz: int
    declared_samples: int | None
    container: str
    decoder: Literal["soundfile", "pyav"]
    tracks: int = 1
    is_only_track: bool = True
    ignore_length: bool = False
    is_placeholder: bool = False
    is_rounded: bool = False
    lost_packet_bytes: float | None = None
    cut: str | None = None

    def blocks(self, block_samples: int = BLOCK_SAMPLES) -> BlockReader:
        """Decode from the start: float32 [channels, block_samples] at the native rate, the last one shorter.

        Every call begins anew. Memory stays at a few blocks whatever the file's length.
        """
        if block_samples < 1:
            raise UsageError(f"a block cannot have {block_samples} samples")
        if self.decoder == "soundfile":
            pieces: Iterator[Piece] = soundfile_pieces(self.path)
        else:
            probe = Probe(self.channels, self.sample_rate_hz, self.declared_samples, self.container)
            pieces = av_pieces(
                self.path, probe, ignore_length=self.ignore_length, lost_packet_bytes=self.lost_packet_bytes
            )
        return BlockReader(pieces, block_samples)

    def count_samples(self) -> int:
        """Samples per channel that really decode: one pass over the file."""
        return sum(block.shape[1] for block in self.blocks())

    @property
    def is_lossless(self) -> bool:
        """Whether the declared and the decoded length of an undamaged file are equal to the sample."""
        family, _, coding = self.container.partition("/")
        return self.decoder == "soundfile" and (
            family == "FLAC" or coding.startswith("PCM") or coding in {"FLOAT", "DOUBLE", "ULAW", "ALAW"}
        )


def open_audio(path: Path) -> AudioSource:
    """Find the decoder of a file and read its header.

    soundfile is asked first, then PyAV.
    Raises CallRefused: file-missing, audio-unreadable, audio-headerless, audio-rate, audio-channels.
    """
    path = Path(path)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise refusal(
            "file-missing", f"cannot be opened: {getattr(error, 'strerror', None) or error}", path
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise refusal("audio-unreadable", "is not a regular file", path)
    if not os.access(path, os.R_OK):
        raise refusal("audio-unreadable", "may not be read (permission denied)", path)
    if status.st_size == 0:
        raise refusal("audio-too-short", "is an empty file", path)
    source = _with_end(_open_by_content(path))
    if not MIN_RATE_HZ <= source.sample_rate_hz <= MAX_RATE_HZ:
        raise refusal("audio-rate", f"declares a sample rate of {source.sample_rate_hz:,} Hz", path)
    if source.channels > MAX_CHANNELS:
        raise refusal("audio-channels", f"declares {source.channels} channels", path)
    return source


def _open_by_content(path: Path) -> AudioSource:
    if looks_like_mpeg(path):
        source = _mpeg_source(path)
        if source is not None:
            return source
    probe = probe_soundfile(path)
    if probe is None:
        found = probe_av(path)
        if isinstance(found, str):
            raise _unreadable(path, found)
        return _source(path, found, "pyav")
    claim = read_claim(path)
    if claim is not None:
        declared = replace(probe, declared_samples=claim.samples)
        source = (
            _through_av(path, declared, ignore_length=True)
            if claim.audio_behind
            else _source(path, declared, "soundfile")
        )
        return replace(source, is_placeholder=claim.is_placeholder)
    if probe.declared_samples is None or (
        probe.container.split("/")[0] in {"OGG", "FLAC"}
        and _is_for_av(scan_packets(path, is_mpeg=False), probe)
    ):
        return _through_av(path, probe)
    return _source(path, probe, "soundfile")


def _with_end(source: AudioSource) -> AudioSource:
    """`source` with what its container says of its end. A duration is that of its longest track, so of an only one."""
    end = read_end(source.path)
    if end.duration_s is not None and source.declared_samples is None and source.is_only_track:
        samples = round(end.duration_s * source.sample_rate_hz)
        source = replace(source, declared_samples=samples, is_rounded=True)
    return replace(source, cut=source.cut or end.cut)


def _mpeg_source(path: Path) -> AudioSource | None:
    """An MP3 file, or None where it is none.

    Damaged ones are not shown to libsndfile, whose MP3 decoder gives up and writes to the terminal.
    """
    scan = scan_packets(path, is_mpeg=True)
    if not scan.ticks:
        return None
    if scan.is_broken:
        found = probe_av(path)
        if isinstance(found, str):
            return None
        stated = replace(found, declared_samples=scan.stated_samples)
        return replace(_source(path, stated, "pyav"), lost_packet_bytes=scan.lost_packet_bytes, cut=scan.cut)
    probe = probe_soundfile(path)
    if probe is None or not probe.container.startswith("MP3/"):
        return None
    source = _through_av(path, probe) if _is_for_av(scan, probe) else _source(path, probe, "soundfile")
    return replace(source, is_placeholder=scan.stated_samples is None, cut=scan.cut)


def _is_for_av(scan: PacketScan, probe: Probe) -> bool:
    """Whether a compressed file holds more than libsndfile would decode, or has holes.

    libsndfile stops at the length that it takes from the header: a variable-rate MP3 without a Xing header, a file
    appended to another or a chained Ogg stream would lose their ends without a word. At a hole it gives up or goes on
    as if nothing were missing.
    """
    return scan.is_broken or scan.exceeds(probe.declared_samples or 0, probe.sample_rate_hz)


def _through_av(path: Path, declared: Probe, *, ignore_length: bool = False) -> AudioSource:
    """Let FFmpeg decode what libsndfile would cut off; the header's length is kept for the report."""
    found = probe_av(path)
    if isinstance(found, str):
        return _source(path, declared, "soundfile")
    samples = declared.declared_samples
    if samples is not None:
        samples = samples * found.sample_rate_hz // declared.sample_rate_hz
    return _source(path, replace(found, declared_samples=samples), "pyav", ignore_length=ignore_length)


def _source(
    path: Path,
    probe: Probe,
    decoder: Literal["soundfile", "pyav"],
    *,
    ignore_length: bool = False,
) -> AudioSource:
    return AudioSource(
        path=path,
        channels=probe.channels,
        sample_rate_hz=probe.sample_rate_hz,
        declared_samples=probe.declared_samples,
        container=probe.container,
        decoder=decoder,
        tracks=probe.tracks,
        is_only_track=probe.is_only_track,
        ignore_length=ignore_length,
    )


def _unreadable(path: Path, reason: str) -> CallRefused:
    with path.open("rb") as file:
        magic = file.read(12)
    suffix = path.suffix.lower()
    if suffix in _HEADERLESS_SUFFIXES:
        return refusal(
            "audio-headerless", f"a {suffix} file has no header that gives rate and channels", path
        )
    if suffix in {".wav", ".wave"} and magic[:4] not in _WAV_MAGIC:
        return refusal(
            "audio-headerless", f"is named {suffix} but begins with {magic[:4]!r}, not with RIFF", path
        )
    return refusal("audio-unreadable", f"neither libsndfile nor FFmpeg decodes it ({reason})", path)
