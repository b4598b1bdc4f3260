"""Speech found by level: in made signals where it is known, and on the real call where words were timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inkplex_data.audio.activity import STEP_US, LevelMeter, speech_activity, speech_threshold_db
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.turns import units_of_activity
from inkplex_data.corpus.transcripts import read_transcript

RATE = 24_000


def levels(samples: np.ndarray) -> np.ndarray:
    meter = LevelMeter()
    meter.push(samples.astype(np.float32))
    return meter.levels_db()


def bursts(noise_db: float, speech_db: float = -20.0) -> np.ndarray:
    """Six seconds of noise with a louder, uneven sound at 1 to 2 s and at 4 to 4.5 s, and a click at 3 s."""
    random = np.random.default_rng(0)
    samples = random.standard_normal(6 * RATE) * 10 ** (noise_db / 20)
    for start, end in ((1.0, 2.0), (4.0, 4.5)):
        part = slice(int(start * RATE), int(end * RATE))
        samples[part] += random.standard_normal(part.stop - part.start) * 10 ** (speech_db / 20)
    samples[3 * RATE : 3 * RATE + 720] += 0.5
    return samples


@pytest.mark.parametrize("noise_db", [-300.0, -70.0, -45.0])
def test_bursts_are_found(noise_db: float) -> None:
    found = units_of_activity(speech_activity(levels(bursts(noise_db))), STEP_US)
    assert found.tolist() == [[1_000_000, 2_000_000], [4_000_000, 4_500_000]]


def test_steady_noise_and_silence_are_no_speech() -> None:
    noise = np.random.default_rng(1).standard_normal(5 * RATE)
    for samples in (0.1 * noise, 1e-5 * bursts(-40), np.zeros(RATE), np.zeros(0)):
        found = levels(samples)
        assert not speech_activity(found).any() and speech_threshold_db(found) == np.inf


def test_chunks_do_not_matter_and_pass_unchanged() -> None:
    samples = bursts(-50).astype(np.float32)[:100_001]
    meter = LevelMeter()
    cuts = np.split(samples, [1, 239, 240, 5_000, 77_777])
    assert all(a is b for a, b in zip(meter.watch(cuts), cuts, strict=True))
    found = meter.levels_db()
    np.testing.assert_array_equal(found, levels(samples))
    assert len(found) == -(-len(samples) // 240)


def test_the_real_call(real_data: Path) -> None:
    """Words that whisper timed on the agent's channel lie in speech; the channel is mostly silent."""
    calls = real_data / "calls"
    audio = resolve_channels(
        {role: calls / f"Auto_Repairs_40_UTC_{role}.wav" for role in ("agent", "caller")}
    )
    meter = LevelMeter()
    for _ in meter.watch(audio.stream("agent", 240_000)):
        pass
    found = units_of_activity(speech_activity(meter.levels_db()), STEP_US)
    speech = np.zeros(24_600, bool)
    for start, end in found // STEP_US:
        speech[start:end] = True
    words = read_transcript(calls / "Auto_Repairs_40_UTC_agent.json").words
    said = [word for word in words if word.confidence is None or word.confidence > 0.8]
    inside = [
        speech[int(float(str(word.start)) * 100) : int(float(str(word.end)) * 100) + 1].mean() > 0.5
        for word in said
    ]
    assert np.mean(inside) > 0.8
    assert 0.1 < speech.mean() < 0.5


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 22_050, 48_000])
def test_steps_keep_time_at_every_rate(rate_hz: int) -> None:
    """A tone from the third second on begins in step 200, whatever the rate and the chunks."""
    samples = np.zeros(4 * rate_hz + 7, np.float32)
    samples[2 * rate_hz :] = 0.5
    meter = LevelMeter(rate_hz)
    for part in np.split(samples, [1, 110, 111, 5_000, 2 * rate_hz + 3]):
        meter.push(part)
    found = meter.levels_db()
    assert len(found) == 401
    np.testing.assert_allclose(found[200:], 20 * np.log10(0.5), atol=1e-4)
    assert (found[:200] == -120).all()
