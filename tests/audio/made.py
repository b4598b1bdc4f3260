"""Audio that the tests make themselves."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import soundfile

from inkplex_data.errors import CallRefused
from inkplex_data.problems import Problem, ProblemLog

Array = npt.NDArray[np.float32]


def noise(samples: int, channels: int = 2, *, seed: int = 0, level: float = 0.1) -> Array:
    """Independent noise [channels, samples] on the 16-bit grid, so that PCM files hold it exactly."""
    values = np.random.default_rng(seed).standard_normal((channels, samples)) * level
    return (np.rint(np.clip(values, -0.99, 0.99) * 32768) / 32768).astype(np.float32)


def save(
    path: Path, samples: Array, rate: int = 16_000, subtype: str | None = "PCM_16", form: str | None = None
) -> Path:
    # In pieces: libsndfile overflows its stack on one long write of Vorbis.
    with soundfile.SoundFile(path, "w", rate, len(np.atleast_2d(samples)), subtype, format=form) as file:
        for start in range(0, samples.shape[-1], 16_384):
            file.write(samples[..., start : start + 16_384].T)
    return path


def save_matroska(path: Path, tracks: list[Array], rate: int = 16_000) -> Path:
    """16-bit PCM tracks in a container that libsndfile does not know."""
    with av.open(str(path), "w") as container:
        layout = {1: "mono", 2: "stereo", 3: "2.1"}
        streams = [
            container.add_stream("pcm_s16le", rate=rate, layout=layout[len(track)]) for track in tracks
        ]
        for stream, track in zip(streams, tracks, strict=True):
            packed = np.rint(track.T * 32768).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, format="s16", layout=layout[len(track)])
            frame.sample_rate = rate
            for packet in [*stream.encode(frame), *stream.encode(None)]:
                container.mux(packet)
    return path


def save_aac(path: Path, samples: Array, rate: int = 16_000) -> Path:
    """A stereo AAC file in MP4 (.m4a) or bare (.aac), which libsndfile does not read."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=rate, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return path


def save_lossy(
    path: Path, samples: Array, codec: str, *, rate: int = 48_000, lost: range = range(0), shift: int = 0
) -> Path:
    """A file as the recorder of a lossy stream writes it: packets `lost` never came, stamps stay true.

    `shift`: from packet 40 on stamps move by so many samples.
    """
    layout = "mono" if len(samples) == 1 else "stereo"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        stream.codec_context.open()
        kind = stream.codec_context.format.name
        resampler = av.AudioResampler(kind, layout, rate, stream.codec_context.frame_size or 1_000)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        cut = [*resampler.resample(frame), *resampler.resample(None)]
        packets = [packet for part in [*cut, None] for packet in stream.encode(part)]
        for number, packet in enumerate(packets):
            # No packet may be decoded before the one ahead of it, but it may be heard.
            packet.dts += shift if shift < 0 or number >= 40 else 0
            packet.pts += shift if number >= 40 else 0
            if number not in lost:
                container.mux(packet)
    return path


def refused_code(action: object) -> str:
    """The code with which a call of `action` is refused, checked to say where and what to do."""
    try:
        action()  # type: ignore[operator]
    except CallRefused as error:
        assert error.where and error.next_step and error.what
        return error.code
    raise AssertionError("nothing was refused")


def codes(log: ProblemLog) -> list[str]:
    return [problem.code for problem in log]


def only(log: ProblemLog, code: str) -> Problem:
    (problem,) = [problem for problem in log if problem.code == code]
    return problem
