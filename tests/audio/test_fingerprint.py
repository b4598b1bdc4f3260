"""What is kept of a sound: the same however the file was made, nothing in common with other sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.audio.fingerprint import KEPT, LEVELS, Fingerprint, FingerprintMeter
from inkplex_data.audio.resample import resample
from inkplex_data.pipeline.planning.same_audio import is_same_recording
from tests.audio.made import Array, noise, save_lossy
from tests.pipeline.conftest import voice

RATE = 16_000


def taken(stereo: Array, rate: int = RATE, block: int = 50_000) -> Fingerprint:
    meter = FingerprintMeter(rate)
    for start in range(0, stereo.shape[1], block):
        meter.update(*stereo[:, start : start + block])
    return Fingerprint.of(meter.fingerprint())


def same(one: Fingerprint, other: Fingerprint) -> bool:
    return np.array_equal(one.levels, other.levels) and np.array_equal(one.hashes, other.hashes)


def shared(one: Fingerprint, other: Fingerprint) -> int:
    return len(np.intersect1d(one.hashes["hash"], other.hashes["hash"]))


def decoded(path: Path) -> tuple[Array, int]:
    source = open_audio(path)
    return np.concatenate(list(source.blocks()), axis=1), source.sample_rate_hz


@pytest.fixture(scope="module")
def call(real_data: Path) -> Array:
    return decoded(real_data / "calls" / "michaelandsickmichael.wav")[0]


def test_a_fingerprint_is_small_and_in_order(call: Array) -> None:
    made = taken(call)
    found = made.hashes
    assert len(found) == KEPT and made.levels.shape == (LEVELS,) and made.levels.max() == 120
    assert (np.diff(found["hash"].astype(np.int64)) > 0).all()
    assert found["time"].max() <= call.shape[1] / RATE / 2


def test_blocks_do_not_matter(call: Array) -> None:
    assert same(taken(call, block=7_001), taken(call, block=10**9))


def test_level_order_and_rate_do_not_matter(call: Array) -> None:
    found = taken(call)
    assert same(taken(call[::-1]), found)
    assert same(taken(call * np.float32(0.25)), found)
    mono = call.sum(axis=0) / 2
    assert is_same_recording(found, taken(np.stack([mono, mono])))
    for rate in (8_000, 24_000, 44_100):
        other = taken(resample(call, RATE, rate), rate)
        assert shared(other, found) > 0.9 * KEPT
        assert is_same_recording(found, other)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("a.mp3", "libmp3lame", 16_000),
        ("a.m4a", "aac", 16_000),
        ("a.opus", "libopus", 48_000),
        ("a.wav", "adpcm_ima_wav", 16_000),
    ],
)
@pytest.mark.parametrize("file", ["calls/michaelandsickmichael.wav", "calls/multi.wav"])
def test_codecs_leave_it_recognisable(
    real_data: Path, tmp_path: Path, file: str, name: str, codec: str, rate: int
) -> None:
    sound, native = decoded(real_data / file)
    coded = decoded(save_lossy(tmp_path / name, resample(sound, native, rate), codec, rate=rate))
    assert is_same_recording(taken(sound, native), taken(*coded))


def test_other_sound_has_nothing_in_common(real_data: Path, call: Array) -> None:
    found = [taken(call)]
    for name in ("multi.wav", "stereo_diarization.wav"):
        found.append(taken(*decoded(real_data / "calls" / name)))
    for one in range(3):
        for other in range(one):
            assert shared(found[one], found[other]) == 0
            assert not is_same_recording(found[one], found[other])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.75])
def test_two_calls_that_share_hold_music_are_two(real_data: Path, call: Array, share: float) -> None:
    """The same sound at the same time, and then each its own."""
    other, native = decoded(real_data / "calls" / "multi.wav")
    other = np.resize(resample(other[0], native, RATE), call.shape[1])
    mixed = call.copy()
    start = int(call.shape[1] * share)
    mixed[:, start:] = other[start:]
    assert not is_same_recording(taken(call), taken(mixed))


def test_a_ringing_tone_and_silence_are_no_recording() -> None:
    time = np.arange(20 * RATE) / RATE
    ring = (0.1 * (np.sin(2 * np.pi * 440 * time) + np.sin(2 * np.pi * 480 * time)) * (time % 6 < 2)).astype(
        np.float32
    )
    assert len(taken(np.zeros((2, 20 * RATE), np.float32)).hashes) == 0
    one, other = (
        np.stack([ring, np.where(time > 12, noise(len(time), 1, seed=seed)[0], 0)]).astype(np.float32)
        for seed in (1, 2)
    )
    assert not is_same_recording(taken(one), taken(other))


def test_nothing_is_like_nothing() -> None:
    empty = taken(np.zeros((2, 100), np.float32))
    assert len(empty.hashes) == 0 and not is_same_recording(empty, empty)


@pytest.mark.parametrize("seconds", [2.5, 10.0, 40.0])
def test_voices_of_the_same_tones_are_told_apart_by_their_levels(seconds: float) -> None:
    made = [
        taken(np.stack([voice(seed, seconds, 120), voice(seed + 1_000, seconds, 210)]), 24_000)
        for seed in range(3)
    ]
    assert all(not is_same_recording(made[one], made[other]) for one in range(3) for other in range(one))
