"""Files that were cut: their containers know it. Files that were recorded to a stream know no end, and are not cut."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from inkplex_data.audio.call_scan import report_length
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.files.container_end import ContainerEnd, read_end
from inkplex_data.problems import ProblemLog
from tests.audio.made import codes, noise, save, save_lossy


def reported(path: Path) -> list[str]:
    source = open_audio(path)
    reader = source.blocks()
    assert sum(block.shape[1] for block in reader) > 0
    log = ProblemLog("call")
    report_length(source, reader, log)
    return codes(log)


def cut(path: Path, share: float) -> Path:
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    return path


@pytest.mark.parametrize("share", [0.5, 0.995])
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.webm", "libopus"),
        ("a.mka", "aac"),
        ("a.mkv", "pcm_s16le"),
        ("a.opus", "libopus"),
        ("a.oga", "flac"),
    ],
)
def test_a_cut_file_is_told_from_a_whole_one(tmp_path: Path, name: str, codec: str, share: float) -> None:
    path = save_lossy(tmp_path / name, noise(144_000), codec)
    assert reported(path) == []
    assert reported(cut(path, share)) == ["audio-truncated"]


@pytest.mark.parametrize("share", [0.5, 0.995])
@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_a_cut_ogg_of_libsndfile(tmp_path: Path, subtype: str, share: float) -> None:
    path = save(tmp_path / "a.ogg", noise(144_000), 48_000, subtype, "OGG")
    assert open_audio(path).decoder == "soundfile"
    assert reported(path) == []
    assert reported(cut(path, share)) == ["audio-truncated"]


def save_live(path: Path) -> Path:
    """A WebM as browsers record it: to a stream, so that neither its size nor its duration is ever written."""
    with (
        av.open(str(save_lossy(path.with_suffix(".opus"), noise(144_000), "libopus"))) as source,
        av.open(str(path), "w", format="webm", options={"live": "1"}) as container,
    ):
        stream = container.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:
                packet.stream = stream
                container.mux(packet)
    return path


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_live_recording_without_a_duration_is_no_truncation(tmp_path: Path, share: float) -> None:
    path = cut(save_live(tmp_path / "a.webm"), share)
    assert read_end(path) == ContainerEnd()
    assert open_audio(path).declared_samples is None
    assert reported(path) == []


def test_a_duration_alone_tells_of_a_cut(tmp_path: Path) -> None:
    """A recorder that corrects the duration at the end, but leaves the size of the segment open."""
    path = save_lossy(tmp_path / "a.webm", noise(144_000), "libopus")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"\x18\x53\x80\x67") + 4
    assert raw[at] == 1
    raw[at + 1 : at + 8] = b"\xff" * 7
    path.write_bytes(raw)
    assert read_end(path) == ContainerEnd(None, pytest.approx(3.0, abs=0.01))
    assert reported(path) == []
    assert reported(cut(path, 0.9)) == ["audio-truncated"]


def test_a_cut_mp4_that_can_be_read_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(
        str(path), "w", options={"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    ) as container:
        stream = container.add_stream("aac", rate=48_000, layout="stereo")
        frame = av.AudioFrame.from_ndarray(noise(144_000), format="fltp", layout="stereo")
        frame.sample_rate = 48_000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    assert "audio-truncated" not in reported(path)
    assert "audio-truncated" in reported(cut(path, 0.6))


@pytest.mark.parametrize("magic", [b"OggS", b"\x1a\x45\xdf\xa3", b"\0\0\0\x20ftyp"])
def test_bytes_that_only_begin_like_a_container_say_nothing_or_that_they_are_cut(
    tmp_path: Path, magic: bytes
) -> None:
    for filler in (b"", b"\0" * 40, b"\xff" * 40, b"\x01" * 300):
        (tmp_path / "a").write_bytes(magic + filler)
        assert read_end(tmp_path / "a").duration_s is None
