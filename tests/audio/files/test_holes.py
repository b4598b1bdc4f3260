"""Files that lack something inside: what is behind the hole is where it belongs, and the hole is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.files.blocks import BlockReader
from tests.audio.made import Array, noise, save, save_lossy


def decoded(path: Path) -> tuple[Array, BlockReader]:
    reader = open_audio(path).blocks(10_000)
    return np.concatenate(list(reader), axis=1), reader


def damage(path: Path, start: float, count: int, *, seed: int | None = 0) -> Path:
    """Overwrite `count` bytes with noise, or take them away where there is no seed."""
    raw = path.read_bytes()
    at = int(len(raw) * start)
    bad = b"" if seed is None else np.random.default_rng(seed).bytes(count)
    path.write_bytes(raw[:at] + bad + raw[at + count :])
    return path


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.webm", "libopus"),
        ("a.mka", "libopus"),
        ("a.mkv", "pcm_s16le"),
        ("a.m4a", "aac"),
        ("a.flv", "aac"),
        ("a.ts", "aac"),
        ("a.opus", "libopus"),
    ],
)
def test_packets_that_never_came_leave_silence_of_their_length(tmp_path: Path, name: str, codec: str) -> None:
    voice = np.cumsum(noise(144_000, 1)[0]) * 0.01
    voice -= np.convolve(voice, np.ones(200) / 200, "same")
    stereo = np.stack([voice, voice]).astype(np.float32)
    whole, sound = decoded(save_lossy(tmp_path / f"whole{name}", stereo, codec))
    assert (sound.holes, sound.overlaps, sound.fault) == ([], [], None)
    found, reader = decoded(save_lossy(tmp_path / name, stereo, codec, lost=range(50, 75)))
    ((start, end),) = reader.holes
    frame = {"libopus": 960, "aac": 1_024, "pcm_s16le": 1_000}[codec]
    tick = 48 if name.endswith(("webm", "mka", "mkv", "flv")) else 1
    assert abs(end - start - 25 * frame) <= tick
    assert not found[:, start:end].any()
    assert abs(found.shape[1] - whole.shape[1]) <= tick
    # Codecs need a few packets to find themselves again.
    after = slice(end + 8_000, end + 16_000)
    best = max(
        float(np.corrcoef(found[0, after], whole[0, after.start - lag : after.stop - lag])[0, 1])
        for lag in range(-tick, tick + 1)
    )
    assert best > 0.99


def test_a_stretch_that_was_stored_twice_is_left_out(tmp_path: Path) -> None:
    samples = noise(100_000)
    found, reader = decoded(save_lossy(tmp_path / "a.mkv", samples, "pcm_s16le", shift=-9_600))
    ((at, left_out),) = reader.overlaps
    assert at == 40_000 and abs(left_out - 9_600) <= 48
    assert np.array_equal(found, np.delete(samples, slice(at, at + left_out), axis=1))


@pytest.mark.parametrize("count", [1, 300, 20_000])
@pytest.mark.parametrize("seed", [0, None])
def test_a_hole_in_a_flac_has_the_length_of_its_frames(tmp_path: Path, count: int, seed: int | None) -> None:
    samples = noise(100_000)
    path = damage(save(tmp_path / "a.flac", samples, 48_000), 0.5, count, seed=seed)
    found, reader = decoded(path)
    ((start, end),) = reader.holes
    assert found.shape == samples.shape
    assert (end - start) % 4_096 == 0 and end - start <= 4_096 * (2 + count // 6_000)
    assert start <= 50_000 + 4_096 and end >= 46_000
    assert not found[:, start:end].any()
    assert np.array_equal(found[:, :start], samples[:, :start])
    assert np.array_equal(found[:, end:], samples[:, end:])


def tones(samples: int = 480_000) -> Array:
    """Two voices whose pitch tells every moment."""
    time = np.arange(samples) / 48_000
    pitches = np.stack([300 + 100 * time, 700 - 50 * time])
    return (0.3 * np.sin(2 * np.pi * np.cumsum(pitches, axis=1) / 48_000)).astype(np.float32)


# Nothing tells how many bytes a file without a tag once had.
@pytest.mark.parametrize(("seed", "tagged"), [(0, True), (None, True), (0, False)])
def test_what_follows_a_hole_in_an_mp3_is_in_its_place(
    tmp_path: Path, seed: int | None, tagged: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the number of frames that the file states, or by the bytes where all frames have the same."""
    samples = tones()
    path = save_lossy(tmp_path / "a.mp3", samples, "libmp3lame")
    if not tagged:
        raw = path.read_bytes()
        path.write_bytes(raw[raw.index(b"\xff\xfb", raw.index(b"Info")) :])
    whole, sound = decoded(path)
    assert sound.holes == []
    found, reader = decoded(damage(path, 0.4, 20_000, seed=seed))
    ((start, end),) = reader.holes
    assert abs(found.shape[1] - whole.shape[1]) <= 1_152
    assert 50_000 < end - start < 70_000  # 128 kbit/s: 16 bytes a millisecond
    for after in (end + 5_000, end + 100_000):
        piece = slice(after, after + 20_000)
        assert np.abs(found[:, piece] - whole[:, piece]).max() < 0.01
    assert capfd.readouterr().err == ""


def test_a_hole_in_an_mp3_of_changing_rate_that_states_no_length_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.mp3", noise(96_000), 48_000, "MPEG_LAYER_III", "MP3")
    raw = path.read_bytes()
    path.write_bytes(raw[raw.index(raw[:2], 10) :])
    _, reader = decoded(damage(path, 0.5, 6_000))
    assert reader.fault is not None and not reader.recoverable


def test_a_hole_in_an_ogg_is_as_long_as_its_pages_say(tmp_path: Path) -> None:
    samples = tones()
    found, reader = decoded(damage(save(tmp_path / "a.ogg", samples, 48_000, "VORBIS", "OGG"), 0.5, 3_000))
    ((_, end),) = reader.holes
    assert found.shape == samples.shape
    piece = slice(end + 5_000, end + 25_000)
    assert np.abs(found[:, piece] - samples[:, piece]).max() < 0.1


def test_a_stamp_that_claims_years_fills_nothing(tmp_path: Path) -> None:
    path = save_lossy(tmp_path / "a.mkv", noise(96_000), "pcm_s16le", shift=48_000 * 3_700)
    found, reader = decoded(path)
    assert found.shape[1] == 40_000
    assert not reader.recoverable and "3,700 s" in str(reader.fault)
