"""What was asked is what is measured: gain, noise, echo and silences, to half a decibel and to the sample."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.audio.augment_caller import (
    CallerChange,
    CallSound,
    Gain,
    Noise,
    Room,
    Silence,
    Surroundings,
)
from inkplex_data.audio.augment_plan import CHANGES, AugmentPlan, plan_augment
from inkplex_data.audio.augment_streams import change_agent, change_caller
from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.fir import StreamFir
from inkplex_data.config.augment import AugmentConfig, BargeInAugment, NoiseAugment, SilenceAugment

RATE = 24_000
SAMPLES = 6 * RATE + 123
NO_UNITS = np.zeros((0, 2), np.int64)


def voice(seed: int, samples: int = SAMPLES) -> np.ndarray:
    """White noise whose level changes: every delay and every gain in it can be measured."""
    random = np.random.default_rng(seed)
    knots = np.arange(samples // 4_800 + 2)
    level = np.interp(np.arange(samples), 4_800 * knots, random.uniform(0, 0.2, len(knots)))
    return (random.standard_normal(samples) * level).astype(np.float32)


def rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean()))


def changed(*changes: CallerChange, chunk: int = 48_000, folder: Path | None = None) -> np.ndarray:
    caller, agent = voice(1), voice(2)

    def pieces(samples: np.ndarray) -> Iterator[np.ndarray]:
        return rechunk([samples], chunk)

    around = Surroundings(SAMPLES, rms(caller), pieces(agent), folder)
    out = change_caller(pieces(caller), AugmentPlan(changes), around)
    return np.concatenate(list(out))


@pytest.mark.parametrize("gain_db", [-24.0, -3.3, 15.0])
def test_gain(gain_db: float) -> None:
    found = 20 * np.log10(rms(changed(Gain(gain_db))) / rms(voice(1)))
    assert found == pytest.approx(gain_db, abs=0.01)


@pytest.mark.parametrize("colour", ["white", "pink", "brown"])
@pytest.mark.parametrize("level_db", [-30.0, 6.0])
def test_signal_to_noise_ratio_of_colours(colour: str, level_db: float) -> None:
    clean = changed(Gain(-6.0))
    noise = changed(Gain(-6.0), Noise(level_db, colour, None, 0.0, 5)) - clean
    assert 20 * np.log10(rms(clean) / rms(noise)) == pytest.approx(-level_db, abs=0.1)
    spectrum = np.square(np.abs(np.fft.rfft(noise)))
    hz = np.fft.rfftfreq(len(noise), 1 / RATE)
    per_octave = [
        10 * np.log10(spectrum[(hz >= low) & (hz < 2 * low)].mean()) for low in (400, 800, 1_600, 3_200)
    ]
    slope = {"white": 0.0, "pink": -3.01, "brown": -6.02}[colour]
    assert np.diff(per_octave) == pytest.approx([slope] * 3, abs=1.0)


def test_signal_to_noise_ratio_of_recordings(real_data: Path) -> None:
    for name in ("dog_bark.wav", "car_horn.wav"):
        noise = changed(Noise(-10.0, None, name, 0.3, 0), folder=real_data / "noise") - voice(1)
        assert 20 * np.log10(rms(voice(1)) / rms(noise)) == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize("delay", [2_400, 7_777, 12_000])
def test_echo(delay: int) -> None:
    """The agent comes back so much later and so much weaker; reverberation of the caller is taken out first."""
    rest = changed(Room(0.15, delay, 0.3, 6.0, 9)) - changed(Room(0.0, delay, 0.3, 6.0, 9))
    agent = voice(2).astype(np.float64)
    size = 1 << 19
    found = int(np.argmax(np.fft.irfft(np.fft.rfft(rest, size) * np.conj(np.fft.rfft(agent, size)), size)))
    assert found == delay
    aligned = agent[: SAMPLES - delay]
    scale = rest[delay:].astype(np.float64) @ aligned / (aligned @ aligned)
    assert 20 * np.log10(scale / 0.15) == pytest.approx(0.0, abs=0.01)


def test_echo_is_found_under_the_caller_too() -> None:
    """Not only when the rest is known: the correlation of the whole stream has its peak at the delay."""
    mixed = changed(Room(0.2, 5_000, 0.2, 10.0, 3))
    size = 1 << 19
    found = np.fft.irfft(np.fft.rfft(mixed, size) * np.conj(np.fft.rfft(voice(2), size)), size)
    assert int(np.argmax(found)) == 5_000


def test_reverberation_decays_as_asked() -> None:
    taps = Room(0.0, 0, 0.4, 5.0, 1).taps()
    assert taps[0] == 1.0 and not taps[1:48].any()
    assert 10 * np.log10(np.square(taps[1:]).sum()) == pytest.approx(-5.0, abs=1e-6)
    left = np.square(taps[::-1]).cumsum()[::-1]
    early, late = left[round(0.05 * RATE)], left[round(0.25 * RATE)]
    assert 10 * np.log10(early / late) == pytest.approx(60 * 0.2 / 0.4, abs=3.0)


def test_filtering_a_stream_is_convolution() -> None:
    samples, taps = voice(4, 10_000), Room(0.0, 0, 0.1, 0.0, 2).taps()
    for size in (1, 999, 4_096, 10_000):
        if size == 1:
            samples = samples[:300]
        fir = StreamFir(taps)
        out = np.concatenate([fir.push(part) for part in rechunk([samples], size)])
        np.testing.assert_allclose(out, np.convolve(samples, taps)[: len(samples)], atol=1e-6)
        samples = voice(4, 10_000)


LOUD = (Gain(3.0), Room(0.1, 3_000, 0.2, 3.0, 1), Noise(-12.0, "pink", None, 0.0, 1))
SILENCE = Silence(((1_000, 30_001), (48_000, 48_001), (140_000, SAMPLES)))


def test_same_plan_same_bytes_in_chunks_of_any_size() -> None:
    whole = changed(*LOUD, SILENCE)
    for chunk in (1_920, 48_000, 77_777):
        assert changed(*LOUD, SILENCE, chunk=chunk).tobytes() == whole.tobytes()


def test_silences_are_digital_and_nothing_else_changes() -> None:
    loud = changed(*LOUD)
    quiet = changed(*LOUD, SILENCE)
    silent = np.zeros(SAMPLES, bool)
    for start, end in SILENCE.spans:
        silent[start:end] = True
    assert not quiet[silent].any()
    np.testing.assert_array_equal(quiet[~silent], loud[~silent])


@given(first=st.integers(0, SAMPLES - 1), length=st.integers(1, SAMPLES))
@settings(max_examples=20)
def test_gain_and_silences_of_a_part_are_the_part_of_them(first: int, length: int) -> None:
    """What does not look beyond a sample commutes with cropping, once its stretches are moved. Noise and echo do not:
    they depend on the whole stream's level, and on what came before."""
    stop = min(first + length, SAMPLES)
    spans = [(max(start, first) - first, min(end, stop) - first) for start, end in SILENCE.spans]
    moved = Silence(tuple(span for span in spans if span[0] < span[1]))

    def made(samples: np.ndarray, silence: Silence) -> np.ndarray:
        around = Surroundings(len(samples), 0.1)
        chunks = rechunk([samples], 48_000)
        return np.concatenate(list(change_caller(chunks, AugmentPlan((Gain(-6.0), silence)), around)))

    whole = voice(1)
    np.testing.assert_array_equal(made(whole[first:stop], moved), made(whole, SILENCE)[first:stop])


def test_without_changes_the_very_same_chunks_pass() -> None:
    chunks = [voice(1, 500), voice(2, 48_000)]
    none = AugmentPlan(text_delay_us=100_000, text_mask=0.3)
    assert all(a is b for a, b in zip(change_agent(chunks, none), chunks, strict=True))
    caller = change_caller(chunks, none, Surroundings(48_500, 0.1))
    assert all(a is b for a, b in zip(caller, chunks, strict=True))


def test_the_agent_is_cut_with_a_short_fade() -> None:
    samples = np.ones(100_000, np.float32)
    plan = AugmentPlan(cuts=((48_100, 60_000),))
    out = np.concatenate(list(change_agent(rechunk([samples], 48_000), plan)))
    assert not out[48_100:60_000].any()
    assert (out[: 48_100 - 240] == 1).all() and (out[60_000:] == 1).all()
    assert (np.diff(out[48_100 - 240 : 48_101]) < 0).all()


def test_a_silent_caller_gets_no_noise() -> None:
    config = AugmentConfig(noise=NoiseAugment(probability=1.0))
    silent = plan_augment(config, "x", CallSound(SAMPLES, NO_UNITS, NO_UNITS, caller_rms=0.0))
    assert "noise" in made(drawn(config, "x")) and "noise" not in made(silent)


# --- the plan ------------------------------------------------------------------------------------------


def ms(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, np.int64).reshape(-1, 2) * 1000


def drawn(
    config: AugmentConfig, call_id: str, agent: np.ndarray = NO_UNITS, caller: np.ndarray = NO_UNITS
) -> AugmentPlan:
    return plan_augment(config, call_id, CallSound(60 * RATE, agent, caller, caller_rms=0.1))


def made(plan: AugmentPlan) -> dict[str, Any]:
    return {change.name: change for change in plan.caller}


def test_every_section_of_the_recipe_has_its_change() -> None:
    """One that is on draws a change of its name, in the order of the list; one that is off draws none."""
    sections = [name for name in AugmentConfig.model_fields if name not in OTHERS]
    assert sorted(sections) == sorted(kind.name for kind in CHANGES)
    sure = AugmentConfig.model_validate({name: {"probability": 1.0} for name in sections})
    assert list(made(drawn(sure, "x"))) == [kind.name for kind in CHANGES]
    assert drawn(AugmentConfig.model_validate(dict.fromkeys(sections)), "x").caller == ()


OTHERS = {"seed", "splits", "barge_in", "text_delay_s", "text_mask", "text_mask_unit", "text_mask_loss"}
"""What `augment` says that is no change of the caller's stream."""


def test_probabilities_and_ranges() -> None:
    """Over two thousand calls: as often as asked, and within the ranges."""
    config = AugmentConfig(text_delay_s=0.6)
    plans = [drawn(config, f"call {number}") for number in range(2_000)]
    changes = [change for plan in plans for change in plan.caller]
    gains = np.array([change.gain_db for change in changes if isinstance(change, Gain)])
    noises = [change for change in changes if isinstance(change, Noise)]
    rooms = [change for change in changes if isinstance(change, Room)]
    for found, wanted in ((gains, 0.5), (noises, 0.3), (rooms, 0.3)):
        assert abs(len(found) / 2_000 - wanted) < 0.04
    assert -24 <= gains.min() < -22 and 13 < gains.max() <= 15
    assert all(-30 <= noise.level_db <= 6 for noise in noises) and {noise.colour for noise in noises} == {
        "white", "pink", "brown"
    }  # fmt: skip
    assert all(0 <= room.echo <= 0.2 and 2_400 <= room.delay_samples <= 12_000 for room in rooms)
    delays = np.array([plan.text_delay_us for plan in plans])
    assert -600_000 <= delays.min() < -550_000 and 550_000 < delays.max() <= 600_000
    silent = [change.spans for change in changes if isinstance(change, Silence)]
    assert abs(len(silent) / 2_000 - 0.5) < 0.04
    assert max(end - start for spans in silent for start, end in spans) <= 30 * RATE


@pytest.mark.parametrize("seconds", [0, 1, 7, 300])
def test_silence_anywhere_takes_turns_with_sound(seconds: int) -> None:
    """Also where the caller speaks; stretches of up to 30 s and half the call, and never the whole of it."""
    config = AugmentConfig(silence=SilenceAugment(probability=1.0, where="anywhere"))
    speaking = ms((0, 1_000 * seconds))
    covered = 0.0
    for number in range(200):
        call = CallSound(seconds * RATE, NO_UNITS, speaking, caller_rms=0.1)
        found = made(plan_augment(config, str(number), call))["silence"].spans
        edges = [0, *(edge for span in found for edge in span), seconds * RATE]
        assert edges == sorted(edges)
        lengths = np.diff(edges)
        assert lengths.max(initial=0) <= min(30, seconds / 2) * RATE
        covered += sum(end - start for start, end in found) / 200
    assert seconds == 0 or abs(covered / (seconds * RATE) - 0.5) < 0.1


def test_one_kind_off_leaves_the_others() -> None:
    full, less = AugmentConfig(), AugmentConfig(noise=None, silence=None)
    for number in range(20):
        every, fewer = made(drawn(full, str(number))), made(drawn(less, str(number)))
        assert fewer == {name: change for name, change in every.items() if name not in ("noise", "silence")}
    assert drawn(full, "x") == drawn(full, "x") != drawn(AugmentConfig(seed=1), "x")


def test_noise_files_are_all_used() -> None:
    names = ["a.wav", "b.wav", "c.wav"]
    sound = CallSound(10, NO_UNITS, NO_UNITS, 0.1, names)
    plans = [plan_augment(AugmentConfig(), str(number), sound) for number in range(200)]
    assert {made(plan)["noise"].file for plan in plans if "noise" in made(plan)} == set(names)


spans = st.lists(st.tuples(st.integers(300, 4_000), st.integers(100, 4_000)), max_size=8).map(
    lambda runs: ms(
        *[
            (sum(sum(r) for r in runs[:i]) + runs[i][0], sum(sum(r) for r in runs[: i + 1]))
            for i in range(len(runs))
        ]
    )
)


@settings(max_examples=150, deadline=None)
@given(spans, spans, st.integers(0, 1_000))
def test_silences_and_cuts_lie_where_they_may(agent: np.ndarray, caller: np.ndarray, seed: int) -> None:
    """No silence touches the caller's speech, and every cut begins after an onset of the caller inside a unit of the
    agent and ends where a unit of the agent ends."""
    config = AugmentConfig(seed=seed, barge_in=BargeInAugment(probability=1.0, reaction_s=0.0))
    plan = drawn(config, "call", agent=agent, caller=caller)
    speech = caller * 24 // 1_000
    silences = made(plan)["silence"].spans if "silence" in made(plan) else ()
    for start, end in silences:
        assert 0 <= start < end <= 60 * RATE
        assert not ((speech[:, 0] < end) & (speech[:, 1] > start)).any()
    ends = set((agent[:, 1] * 24 // 1_000).tolist())
    onsets = set(speech[:, 0].tolist())
    for number, (start, end) in enumerate(plan.cuts):
        later = plan.cuts[number + 1 :]
        assert start in onsets and end in ends and all(end <= other[0] for other in later)
        assert ((agent[:, 0] * 24 // 1_000 < start) & (agent[:, 1] * 24 // 1_000 > start)).any()


def test_a_barge_in_by_hand() -> None:
    """The caller begins at 2 s while the agent speaks from 1 to 3 s and again from 3.4 to 5 s; the caller stops at 4 s,
    so the agent is silent from 2.2 s to 5 s. The agent's next turn is untouched."""
    config = AugmentConfig(barge_in=BargeInAugment(probability=1.0))
    agent, caller = ms((1_000, 3_000), (3_400, 5_000), (7_000, 8_000)), ms((2_000, 4_000), (8_500, 9_000))
    assert drawn(config, "x", agent=agent, caller=caller).cuts == ((52_800, 120_000),)
    assert drawn(AugmentConfig(), "x", agent=agent, caller=caller).cuts == ()
