"""Audio files that are either there whole or not at all: written beside their place, then renamed.

The same samples always give the same bytes, whatever the sizes of the chunks that they come in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.atomic import replacing
from inkplex_data.errors import UsageError

Waveform = npt.NDArray[Any] | Iterable[npt.NDArray[Any]]

Subtype = Literal["PCM_16", "FLOAT"]

_WAV_MAX_BYTES = 0xFFFFFFFF - 64


def write_wav(path: Path, samples: Waveform, sample_rate_hz: int, *, subtype: Subtype = "PCM_16") -> int:
    """Write a WAV file, whole or not at all; otherwise as `write_wav_into`."""
    with replacing(path) as file:
        return write_wav_into(file, samples, sample_rate_hz, subtype=subtype, where=str(path))


def write_wav_into(
    file: BinaryIO, samples: Waveform, sample_rate_hz: int, *, subtype: Subtype = "PCM_16", where: str
) -> int:
    """Write a WAV file into an open file, which messages call `where`; returns the number of samples per channel.

    `samples`: float [n] or [channels, n], whole or as chunks of one kind, 1.0 being full scale. PCM_16
    rounds to the nearest of ±32,768 and clips; samples that came from 16-bit files return unchanged.
    Raises UsageError for values that are not finite, unequal chunks and files over 4 GiB.
    """
    width = {"PCM_16": 2, "FLOAT": 4}[subtype]
    chunks = _planar(samples)
    first = next(chunks)
    channels = len(first)
    # By hand: libsndfile puts the time of day into a float file's PEAK chunk.
    file.write(_wav_header(channels, sample_rate_hz, width, 0))
    count = 0
    for chunk in _chain(first, chunks):
        values = _int16(chunk) if subtype == "PCM_16" else chunk.astype("<f4")
        count += chunk.shape[1]
        if count * channels * width > _WAV_MAX_BYTES:
            raise UsageError(
                "a WAV file cannot exceed 4 GiB",
                where=where,
                next_step="Divide the audio into shorter files.",
            )
        file.write(values.T.tobytes())
    file.seek(0)
    file.write(_wav_header(channels, sample_rate_hz, width, count * channels * width))
    return count


def _int16(chunk: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    scale = 2.0**15
    return np.clip(np.rint(chunk.astype(np.float64) * scale), -scale, scale - 1).astype("<i2")


def _planar(samples: Waveform) -> Iterator[npt.NDArray[Any]]:
    """Chunks [channels, n], checked; always at least one, perhaps empty."""
    channels: int | None = None
    for chunk in [samples] if isinstance(samples, np.ndarray) else samples:
        planar = np.atleast_2d(np.asarray(chunk))
        if planar.ndim != 2 or (channels is not None and len(planar) != channels):
            raise UsageError(
                f"chunks must be [n] or [{channels or 'channels'}, n], got shape {np.shape(chunk)}"
            )
        if not np.issubdtype(planar.dtype, np.floating):
            raise UsageError(f"samples must be floats with full scale 1.0, got {planar.dtype}")
        if not np.isfinite(planar).all():
            raise UsageError("samples hold NaN or infinity")
        channels = len(planar)
        yield planar
    if channels is None:
        yield np.zeros((1, 0), np.float32)


def _chain(first: npt.NDArray[Any], rest: Iterator[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    yield first
    yield from rest


def _wav_header(channels: int, sample_rate_hz: int, width: int, data_bytes: int) -> bytes:
    block = channels * width
    body = struct.pack(
        "<HHIIHH", 1 if width == 2 else 3, channels, sample_rate_hz, sample_rate_hz * block, block, 8 * width
    )
    extra = b"" if width == 2 else struct.pack("<H4sII", 0, b"fact", 4, data_bytes // block)
    fmt = body if width == 2 else body + extra[:2]
    fact = extra[2:]
    size = 4 + 8 + len(fmt) + len(fact) + 8 + data_bytes
    return (
        struct.pack("<4sI4s4sI", b"RIFF", size, b"WAVE", b"fmt ", len(fmt))
        + fmt
        + fact
        + struct.pack("<4sI", b"data", data_bytes)
    )
