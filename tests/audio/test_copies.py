"""One sound in both channels, however late, loud or coded; two voices that share a line or a room are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.copies import Copy, CopyMeter
from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog
from tests.audio.made import Array, noise, save, save_lossy

RATE = 16_000


def found(agent: Array, caller: Array, rate: int = RATE, block: int = 10_000) -> Copy | None:
    meter = CopyMeter(rate)
    for start in range(0, len(agent), block):
        meter.update(agent[start : start + block], caller[start : start + block])
    return meter.copy()


def later(samples: Array, by: int) -> Array:
    return np.concatenate([np.zeros(by, np.float32), samples])[: len(samples)]


@pytest.fixture(scope="module")
def voices(real_data: Path) -> Array:
    """A real stereo call, 52 s at 16 kHz: two voices in turn."""
    blocks = list(open_audio(real_data / "calls" / "michaelandsickmichael.wav").blocks())
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("delay_ms", [0, 1 / 16, 1, 100, -1, -100])
@pytest.mark.parametrize("gain_db", [0, -12, -20, 6])
def test_a_copy_that_is_late_or_at_another_level(voices: Array, delay_ms: float, gain_db: float) -> None:
    mono = voices.sum(axis=0)
    agent, copy = later(mono, max(round(-delay_ms * 16), 0)), later(mono, max(round(delay_ms * 16), 0))
    made = found(agent, copy * np.float32(-(10 ** (gain_db / 20))))
    assert made is not None
    assert made.delay_ms == pytest.approx(delay_ms, abs=0.1)
    assert made.level_db == pytest.approx(gain_db, abs=0.1)


@pytest.mark.parametrize(("codec", "rate"), [("libopus", 48_000), ("aac", 16_000), ("libmp3lame", 16_000)])
def test_a_copy_through_a_codec(voices: Array, tmp_path: Path, codec: str, rate: int) -> None:
    from inkplex_data.audio.resample import resample

    mono = resample(voices.sum(axis=0, keepdims=True), RATE, rate)
    coded = save_lossy(tmp_path / "a.mka", mono, codec, rate=rate)
    copy = np.concatenate(list(open_audio(coded).blocks()), axis=1)
    n = min(mono.shape[1], copy.shape[1])
    paths = {
        "agent": save(tmp_path / "a.wav", mono[:, :n], rate),
        "caller": save(tmp_path / "b.wav", copy[:, :n], rate),
    }
    with pytest.raises(CallRefused) as caught:
        resolve_channels(paths).scan(ProblemLog("call"))
    assert caught.value.code == "audio-dual-mono"


def test_a_copy_with_a_noise_of_its_own(voices: Array) -> None:
    mono = voices.sum(axis=0)
    assert found(mono, mono + noise(len(mono), 1)[0] * mono.std()) is not None


@pytest.mark.parametrize("gain_db", [-6, -12, -20])
@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("delay", [0, 80])
def test_crosstalk_of_two_voices_is_no_copy(
    voices: Array, gain_db: float, both_ways: bool, delay: int
) -> None:
    gain = np.float32(10 ** (gain_db / 20))
    agent, caller = voices
    heard = agent + gain * later(caller, delay) if both_ways else agent
    assert found(heard, caller + gain * later(agent, delay)) is None


@pytest.mark.parametrize("gain_db", [-3, -12, -20])
def test_a_caller_who_says_little_beside_a_perfect_copy_of_the_agent(voices: Array, gain_db: float) -> None:
    agent, caller = voices
    seldom = caller.copy()
    seldom[: len(caller) * 8 // 10] = 0
    assert found(agent, seldom + np.float32(10 ** (gain_db / 20)) * later(agent, 80)) is None


@pytest.mark.parametrize("gain_db", [0, -12])
def test_the_echo_of_a_room_is_no_copy(voices: Array, gain_db: float) -> None:
    """Only the agent speaks, and the caller's microphone hears it."""
    random = np.random.default_rng(0)
    tail = 0.3 * random.standard_normal(1_600) * np.exp(-np.arange(1_600) / 300)
    tail[0] = 1
    echo = np.convolve(voices[0], tail)[: voices.shape[1]].astype(np.float32)
    assert found(voices[0], later(echo, 80) * np.float32(10 ** (gain_db / 20))) is None


@pytest.mark.parametrize("name", ["michaelandsickmichael.wav", "multi.wav", "stereo_diarization.wav"])
def test_real_calls_are_no_copies(real_data: Path, name: str) -> None:
    source = open_audio(real_data / "calls" / name)
    agent, caller = np.concatenate(list(source.blocks()), axis=1)
    assert found(agent, caller, source.sample_rate_hz) is None


def test_blocks_do_not_matter(voices: Array) -> None:
    mono = voices.sum(axis=0)[: 10 * RATE]
    assert found(mono, later(mono, 16), block=999) == found(mono, later(mono, 16), block=160_000)
