"""Bleed of known level and delay is found again on real speech, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from inkplex_data.audio.bleed import MIN_STRETCHES, Bleed, BleedMeter
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.resample import resample
from inkplex_data.problems import ProblemLog

Array = npt.NDArray[np.float32]
CALL_S = 120


@pytest.fixture(scope="module")
def voices(real_data: Path) -> tuple[Array, Array]:
    """Two minutes of both sides of a real call at its own 8 kHz: float32 [n] each."""
    agent, caller = (
        soundfile.read(
            real_data / "calls" / f"Auto_Repairs_40_UTC_{side}.wav", dtype="float32", frames=8_000 * CALL_S
        )[0]
        for side in ("agent", "caller")
    )
    return agent, caller


def late(voice: Array, samples: int) -> Array:
    """The voice `samples` later, as long as before."""
    return np.concatenate([np.zeros(samples, np.float32), voice])[: len(voice)]


def measured(first: Array, second: Array, rate_hz: int, block: int = 50_000) -> list[Bleed | None]:
    meter = BleedMeter(rate_hz)
    for start in range(0, len(first), block):
        meter.update(first[start : start + block], second[start : start + block])
    return [meter.bleed(0), meter.bleed(1)]


@pytest.mark.parametrize("level_db", [-12, -20, -26])
@pytest.mark.parametrize("delay_ms", [0, 20, 120])
@pytest.mark.parametrize("rate_hz", [8_000, 24_000])
def test_known_bleed_is_found_in_its_direction(
    voices: tuple[Array, Array], level_db: float, delay_ms: int, rate_hz: int
) -> None:
    agent, caller = (resample(voice, 8_000, rate_hz) for voice in voices)
    heard = np.float32(10 ** (level_db / 20)) * late(agent, delay_ms * rate_hz // 1000)
    found, back = measured(agent, caller + heard, rate_hz)
    assert found is not None and back is None and found.audible
    assert found.level_db == pytest.approx(level_db, abs=0.5)
    assert found.delay_ms == pytest.approx(delay_ms, abs=0.5)


def test_bleed_of_both_directions_is_told_apart(voices: tuple[Array, Array]) -> None:
    agent, caller = voices
    ways = measured(agent + 0.1 * late(caller, 800), caller + 0.2 * late(agent, 160), 8_000)
    assert [(round(way.level_db), round(way.delay_ms)) for way in ways if way] == [(-14, 20), (-20, 100)]


def test_a_smeared_path_counts_with_all_its_power(voices: tuple[Array, Array]) -> None:
    agent, caller = voices
    taps = np.zeros(64, np.float32)
    taps[[0, 24, 56]] = 0.1, -0.06, 0.03
    found, _ = measured(agent, caller + np.convolve(agent, taps)[: len(agent)], 8_000)
    path = np.convolve(agent, taps)
    true_db = 10 * np.log10(np.square(path).mean() / np.square(agent).mean())
    assert found is not None and found.level_db == pytest.approx(true_db, abs=1.5)
    assert found.delay_ms == pytest.approx(0, abs=0.5)


def test_two_voices_by_themselves_show_none(voices: tuple[Array, Array], real_data: Path) -> None:
    agent, caller = voices
    assert measured(agent, caller, 8_000) == [None, None]
    # The same two voices with nothing in common in time, so that both speak most of the time.
    other, rate_hz = soundfile.read(real_data / "mono" / "cold_corpus.wav", dtype="float32")
    for voice in (agent, caller):
        pair = (resample(voice[8_000 * 20 :], 8_000, rate_hz)[: len(other)], other)
        assert not any(way is not None and way.audible for way in measured(*pair, rate_hz))


def test_blocks_do_not_matter(voices: tuple[Array, Array]) -> None:
    agent, caller = (resample(voice[: 8_000 * 40], 8_000, 22_050) for voice in voices)
    heard = caller + 0.1 * late(agent, 441)
    whole = measured(agent, heard, 22_050, block=len(agent))[0]
    assert whole is not None and whole.delay_ms == pytest.approx(20, abs=0.5)
    for block in (997, 4_096, 100_000):
        part = measured(agent, heard, 22_050, block)[0]
        assert part is not None
        assert part.level_db == pytest.approx(whole.level_db, abs=1e-3) and part.delay_ms == whole.delay_ms


def test_little_speech_and_muted_channels_tell_nothing(voices: tuple[Array, Array]) -> None:
    agent, caller = voices
    short = 8_000 * MIN_STRETCHES
    assert measured(agent[:short], caller[:short] + 0.1 * agent[:short], 8_000) == [None, None]
    assert measured(agent, np.zeros_like(agent), 8_000) == [None, None]
    assert measured(agent[:0], caller[:0], 8_000) == [None, None]


def test_a_scan_reports_bleed_and_a_clean_call_gets_none(voices: tuple[Array, Array], tmp_path: Path) -> None:
    agent, caller = voices
    soundfile.write(tmp_path / "clean.wav", np.stack([agent, caller], axis=1), 8_000)
    leaked = np.stack([agent, 0.9 * caller + 0.09 * late(agent, 160)], axis=1)  # −20.9 dB
    soundfile.write(tmp_path / "leaked.wav", leaked, 8_000)
    logs = {name: ProblemLog(name, strict=True) for name in ("clean", "leaked")}
    scans = {name: resolve_channels(tmp_path / f"{name}.wav").scan(log) for name, log in logs.items()}
    assert scans["clean"].bleed == {"agent": None, "caller": None}
    found = scans["leaked"].bleed["agent"]
    assert found is not None and found.level_db == pytest.approx(-20.9, abs=0.5)
    assert "audio-bleed" not in {problem.code for problem in logs["clean"]}
    (told,) = [problem for problem in logs["leaked"] if problem.code == "audio-bleed"]
    assert told.severity == "info" and "(caller, channel 1)" in told.item
    assert "the agent's voice is on the caller's channel, 21.0 dB below" in told.message
    assert told.message.endswith("20.0 ms later")
