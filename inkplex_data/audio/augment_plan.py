"""What is done to a call for augmentation, drawn before anything is done. Pure.

Each kind of change has a random stream of its own, seeded by the recipe's seed and the call's id, so that a call is
changed in the same way whatever else is in the corpus, and turning one kind off leaves the others as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.noise import COLOURS
from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import SAMPLE_RATE_HZ, US_PER_S, us_to_samples
from inkplex_data.config.augment import (
    AugmentConfig,
    BargeInAugment,
    NoiseAugment,
    RoomAugment,
    SilenceAugment,
)

QUIET_MARGIN_US: Final = 200_000
"""Between the caller's speech and a stretch of silence: a level detector misses the softest ends of words."""
SHORTEST_SILENCE_US: Final = 500_000
REVERB_MIN_DB, REVERB_MAX_DB = 0.0, 15.0


@dataclass(frozen=True)
class NoisePlan:
    """Noise `level_db` over the caller's RMS: of a `colour`, or from the sound file `file`, from its part `start` on."""

    level_db: float
    colour: str | None
    file: str | None
    start: float
    seed: int


@dataclass(frozen=True)
class RoomPlan:
    """Echo of the agent, `echo` times its amplitude and `delay_samples` later, and the caller's reverberation: `reverb_s`
    to −60 dB, `direct_db` weaker than the direct sound."""

    echo: float
    delay_samples: int
    reverb_s: float
    direct_db: float
    seed: int


@dataclass(frozen=True)
class AugmentPlan:
    """Every change of one call; samples at 24 kHz, stretches half-open and in order.

    `cuts`: where the agent falls silent for a constructed barge-in. `text_delay_us` adds to the recipe's.
    """

    gain_db: float | None = None
    noise: NoisePlan | None = None
    room: RoomPlan | None = None
    silences: tuple[tuple[int, int], ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()
    text_delay_us: int = 0
    text_mask: float = 0.0
    text_seed: int = 0

    @property
    def changes_caller(self) -> bool:
        return self.gain_db is not None or bool(self.noise or self.room or self.silences)


def draws(seed: int, call_id: str, kind: str) -> np.random.Generator:
    """The random stream of one kind of change in one call."""
    digest = hashlib.sha256(f"{seed}\0{kind}\0{call_id}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def plan_augment(
    config: AugmentConfig,
    call_id: str,
    *,
    samples: int,
    agent: Intervals,
    caller: Intervals,
    noise_files: Sequence[str] = (),
) -> AugmentPlan:
    """Draw the changes of a call of `samples` in which agent and caller speak in these units (`turns.units`), in µs.

    `noise_files` are the names that noise may be taken from; without any it has a colour.
    """
    gain = draws(config.seed, call_id, "gain")
    text = draws(config.seed, call_id, "text")
    delay_s = config.text_delay_s * text.uniform(-1.0, 1.0)
    return AugmentPlan(
        gain_db=(
            float(gain.uniform(config.gain.min_db, config.gain.max_db))
            if config.gain is not None and gain.random() < config.gain.probability
            else None
        ),
        noise=_noise(config.noise, draws(config.seed, call_id, "noise"), noise_files),
        room=_room(config.room, draws(config.seed, call_id, "room")),
        silences=_silences(config.silence, draws(config.seed, call_id, "silence"), samples, caller),
        cuts=_cuts(config.barge_in, draws(config.seed, call_id, "barge-in"), samples, agent, caller),
        # Whole milliseconds: finer than a frame by far, and readable in the sidecar.
        text_delay_us=round(delay_s * 1_000) * (US_PER_S // 1_000),
        text_mask=config.text_mask,
        text_seed=_seed(text),
    )


def _noise(
    config: NoiseAugment | None, random: np.random.Generator, files: Sequence[str]
) -> NoisePlan | None:
    if config is None or random.random() >= config.probability:
        return None
    level_db = float(random.uniform(config.min_db, config.max_db))
    place, start, seed = random.random(), float(random.random()), _seed(random)
    if files:
        return NoisePlan(level_db, None, files[int(place * len(files))], start, seed)
    colours = list(COLOURS)
    return NoisePlan(level_db, colours[int(place * len(colours))], None, 0.0, seed)


def _room(config: RoomAugment | None, random: np.random.Generator) -> RoomPlan | None:
    if config is None or random.random() >= config.probability:
        return None
    return RoomPlan(
        echo=float(random.uniform(0.0, config.max_echo)),
        delay_samples=round(random.uniform(config.min_delay_s, config.max_delay_s) * SAMPLE_RATE_HZ),
        reverb_s=float(random.uniform(config.min_reverb_s, config.max_reverb_s)),
        direct_db=float(random.uniform(REVERB_MIN_DB, REVERB_MAX_DB)),
        seed=_seed(random),
    )


def _silences(
    config: SilenceAugment | None, random: np.random.Generator, samples: int, caller: Intervals
) -> tuple[tuple[int, int], ...]:
    """Every second pause of the caller, on average, is silent in a part of up to `max_s`, and one at least."""
    if config is None or random.random() >= config.probability:
        return ()
    end_us = samples * US_PER_S // SAMPLE_RATE_HZ
    starts = np.concatenate([[0], caller[:, 1] + QUIET_MARGIN_US])
    ends = np.concatenate([caller[:, 0] - QUIET_MARGIN_US, [end_us]])
    pauses = [(*span, *random.random(3)) for span in zip(starts.tolist(), ends.tolist(), strict=True)]
    long = [pause for pause in pauses if pause[1] - pause[0] >= SHORTEST_SILENCE_US]
    limit = max(0.5, min((pause[2] for pause in long), default=0.5))
    found = []
    for start_us, stop_us, chosen, length_part, place in long:
        room_us = stop_us - start_us
        if chosen > limit:
            continue
        length_us = min(room_us, max(length_part * config.max_s * US_PER_S, SHORTEST_SILENCE_US))
        first_us = start_us + int(place * (room_us - length_us))
        found.append((us_to_samples(first_us), us_to_samples(first_us + int(length_us))))
    return tuple(found)


def _cuts(
    config: BargeInAugment | None,
    random: np.random.Generator,
    samples: int,
    agent: Intervals,
    caller: Intervals,
) -> tuple[tuple[int, int], ...]:
    """From `reaction_s` after an onset of the caller inside a unit of the agent, to the end of the agent's last unit
    that begins before the caller's unit has ended: whoever was interrupted does not go on at once."""
    if config is None:
        return ()
    found: list[tuple[int, int]] = []
    for onset_us, until_us in caller.tolist():
        chosen = random.random() < config.probability
        inside = agent[(agent[:, 0] < onset_us) & (agent[:, 1] > onset_us)]
        if not chosen or not len(inside) or (found and us_to_samples(onset_us) < found[-1][1]):
            continue
        start_us = onset_us + round(config.reaction_s * US_PER_S)
        end_us = int(agent[agent[:, 0] < max(until_us, onset_us + 1), 1].max())
        if start_us < end_us:
            found.append((us_to_samples(start_us), min(us_to_samples(end_us), samples)))
    return tuple(found)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(2**32))


def reverb_taps(plan: RoomPlan) -> npt.NDArray[np.float64]:
    """Impulse response of the caller's room: the direct sound, 1 at tap 0, then noise that decays by 60 dB in `reverb_s`.

    The tail begins after 2 ms and holds 10^(−direct_db / 10) times the energy of the direct sound.
    """
    random = np.random.Generator(np.random.PCG64(plan.seed))
    taps = random.standard_normal(max(round(plan.reverb_s * SAMPLE_RATE_HZ), 2))
    taps *= 10.0 ** (-3.0 * np.arange(len(taps)) / (plan.reverb_s * SAMPLE_RATE_HZ))
    taps[: SAMPLE_RATE_HZ // 500] = 0.0
    taps *= 10.0 ** (-plan.direct_db / 20.0) / np.sqrt(np.square(taps).sum())
    taps[0] = 1.0
    return taps
