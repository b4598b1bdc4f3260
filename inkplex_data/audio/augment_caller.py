"""The changes that a call's caller may get: what is drawn for one call, what that does to the samples, how it is told.

A new kind of change is a class like these, its place in `augment_plan.CHANGES` and a section in `config/augment.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.fir import StreamDelay, StreamFir
from inkplex_data.audio.noise import BLOCK_SAMPLES, COLOURS, coloured_noise, recorded_noise
from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import SAMPLE_RATE_HZ, US_PER_S, samples_to_us, us_to_samples, us_to_seconds
from inkplex_data.config.augment import GainAugment, NoiseAugment, RoomAugment, SilenceAugment

QUIET_MARGIN_US: Final = 200_000
"""Between the caller's speech and a stretch of silence: a level detector misses the softest ends of words."""
SHORTEST_SILENCE_US: Final = 500_000
REVERB_MIN_DB, REVERB_MAX_DB = 0.0, 15.0

Spans = tuple[tuple[int, int], ...]
"""Stretches of samples, half-open and in order."""


@dataclass(frozen=True)
class CallSound:
    """What is known of a call when its changes are drawn.

    `samples` at 24 kHz; the units in which agent and caller speak (`turns.units`), in µs; the caller's RMS over the
    call; the names that noise may be taken from: without any it has a colour.
    """

    samples: int
    agent: Intervals
    caller: Intervals
    caller_rms: float
    noise_files: Sequence[str] = ()


@dataclass(frozen=True)
class Surroundings:
    """What a change may know when it is made: the length and RMS of the stream that it gets, and the agent's stream."""

    samples: int
    rms: float
    agent: Iterable[Samples] = ()
    noise_folder: Path | None = None


class CallerChange:
    """One change. Its fields are what was drawn: equal changes make equal samples.

    `name` is that of its section in the recipe, of its random stream and of what the sidecar records.
    """

    name: ClassVar[str]
    hears_agent: ClassVar[bool] = False
    """Whether `apply` reads the agent's stream, in step."""

    @classmethod
    def draw(cls, config: Any, random: np.random.Generator, call: CallSound) -> CallerChange | None:
        """The change of a call that `config.probability` has chosen; None where it can have none."""
        raise NotImplementedError

    def apply(self, blocks: Iterator[Samples], around: Surroundings) -> Iterator[Samples]:
        """Blocks of 48,000 samples, the last one shorter, in and out."""
        raise NotImplementedError

    def rms_after(self, rms: float) -> float:
        """RMS of the stream that the next change counts with."""
        return rms

    def record(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and settings of each transform in the sidecar."""
        fields = dataclasses.asdict(self)  # type: ignore[call-overload]
        return [(self.name, {"channel": "caller", **{k: v for k, v in fields.items() if v is not None}})]


@dataclass(frozen=True)
class Gain(CallerChange):
    """One gain for the whole stream."""

    name = "gain"
    gain_db: float

    @classmethod
    def draw(cls, config: GainAugment, random: np.random.Generator, call: CallSound) -> Gain:
        return cls(float(random.uniform(config.min_db, config.max_db)))

    @property
    def factor(self) -> float:
        return 10.0 ** (self.gain_db / 20.0)

    def apply(self, blocks: Iterator[Samples], around: Surroundings) -> Iterator[Samples]:
        return (block * np.float32(self.factor) for block in blocks)

    def rms_after(self, rms: float) -> float:
        return self.factor * rms


@dataclass(frozen=True)
class Room(CallerChange):
    """Echo of the agent, `echo` times its amplitude and `delay_samples` later, and the caller's reverberation: `reverb_s`
    to −60 dB, `direct_db` weaker than the direct sound."""

    name = "room"
    hears_agent = True
    echo: float
    delay_samples: int
    reverb_s: float
    direct_db: float
    seed: int

    @classmethod
    def draw(cls, config: RoomAugment, random: np.random.Generator, call: CallSound) -> Room:
        return cls(
            echo=float(random.uniform(0.0, config.max_echo)),
            delay_samples=round(random.uniform(config.min_delay_s, config.max_delay_s) * SAMPLE_RATE_HZ),
            reverb_s=float(random.uniform(config.min_reverb_s, config.max_reverb_s)),
            direct_db=float(random.uniform(REVERB_MIN_DB, REVERB_MAX_DB)),
            seed=draw_seed(random),
        )

    def apply(self, blocks: Iterator[Samples], around: Surroundings) -> Iterator[Samples]:
        fir, delay = StreamFir(self.taps()), StreamDelay(self.delay_samples)
        agent = rechunk(around.agent, BLOCK_SAMPLES)
        for block in blocks:
            yield fir.push(block) + np.float32(self.echo) * delay.push(next(agent))

    def taps(self) -> npt.NDArray[np.float64]:
        """Impulse response of the room: the direct sound, 1 at tap 0, then noise that decays by 60 dB in `reverb_s`.

        The tail begins after 2 ms and holds 10^(−direct_db / 10) times the energy of the direct sound.
        """
        random = np.random.Generator(np.random.PCG64(self.seed))
        taps = random.standard_normal(max(round(self.reverb_s * SAMPLE_RATE_HZ), 2))
        taps *= 10.0 ** (-3.0 * np.arange(len(taps)) / (self.reverb_s * SAMPLE_RATE_HZ))
        taps[: SAMPLE_RATE_HZ // 500] = 0.0
        taps *= 10.0 ** (-self.direct_db / 20.0) / np.sqrt(np.square(taps).sum())
        taps[0] = 1.0
        return taps

    def record(self) -> list[tuple[str, dict[str, Any]]]:
        own = {"reverb_s": self.reverb_s, "direct_db": self.direct_db, "seed": self.seed}
        echo = {"of": "agent", "scale": self.echo, "delay_s": self.delay_samples / SAMPLE_RATE_HZ}
        return [("reverberation", {"channel": "caller", **own}), ("echo", {"channel": "caller", **echo})]


@dataclass(frozen=True)
class Noise(CallerChange):
    """Noise `level_db` over the caller's RMS: of a `colour`, or from the sound file `file`, from its part `start` on."""

    name = "noise"
    level_db: float
    colour: str | None
    file: str | None
    start: float
    seed: int

    @classmethod
    def draw(cls, config: NoiseAugment, random: np.random.Generator, call: CallSound) -> Noise | None:
        level_db = float(random.uniform(config.min_db, config.max_db))
        place, start, seed = random.random(), float(random.random()), draw_seed(random)
        if not call.caller_rms:
            return None  # there is nothing in a silent stream that it could be relative to
        if call.noise_files:
            return cls(level_db, None, call.noise_files[int(place * len(call.noise_files))], start, seed)
        colours = list(COLOURS)
        return cls(level_db, colours[int(place * len(colours))], None, 0.0, seed)

    def apply(self, blocks: Iterator[Samples], around: Surroundings) -> Iterator[Samples]:
        """The noise's own RMS is measured first, so that the ratio is exactly the one that was drawn."""
        squares = sum(float(np.square(block, dtype=np.float64).sum()) for block in self._blocks(around))
        own = (squares / around.samples) ** 0.5 if around.samples else 0.0
        gain = around.rms * 10.0 ** (self.level_db / 20.0) / own if own else 0.0
        noise = self._blocks(around)
        for block in blocks:
            yield block + np.float32(gain) * next(noise)

    def _blocks(self, around: Surroundings) -> Iterator[Samples]:
        if self.file is not None:
            path = (around.noise_folder or Path()) / self.file
            return recorded_noise(path, around.samples, start=self.start)
        random = np.random.Generator(np.random.PCG64(self.seed))
        return coloured_noise(self.colour or "white", around.samples, random)


@dataclass(frozen=True)
class Silence(CallerChange):
    """Digital silence in stretches of the caller's stream."""

    name = "silence"
    spans: Spans

    @classmethod
    def draw(cls, config: SilenceAugment, random: np.random.Generator, call: CallSound) -> Silence | None:
        """In the caller's pauses, every second of which is silent in a part of up to `max_s`, and one at least; or
        anywhere, where stretches of up to `max_s` each, half the call at most, are sound and silence in turn."""
        end_us = call.samples * US_PER_S // SAMPLE_RATE_HZ
        if config.where == "anywhere":
            return cls(_in_turn(end_us, config.max_s, random))
        starts = np.concatenate([[0], call.caller[:, 1] + QUIET_MARGIN_US])
        ends = np.concatenate([call.caller[:, 0] - QUIET_MARGIN_US, [end_us]])
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
        return cls(tuple(found)) if found else None

    def apply(self, blocks: Iterator[Samples], around: Surroundings) -> Iterator[Samples]:
        at = 0
        for block in blocks:
            end = at + len(block)
            touching = [(start, stop) for start, stop in self.spans if start < end and stop > at]
            out = block.copy() if touching else block
            for start, stop in touching:
                out[max(start - at, 0) : stop - at] = 0.0
            yield out
            at = end

    def record(self) -> list[tuple[str, dict[str, Any]]]:
        return [(self.name, {"channel": "caller", "spans_s": spans_s(self.spans)})]


def _in_turn(end_us: int, max_s: float, random: np.random.Generator) -> Spans:
    """Every second of the stretches that fill [0, end): the first or the second, and so on."""
    longest_us = min(round(max_s * US_PER_S), end_us // 2)
    shortest_us = min(SHORTEST_SILENCE_US, longest_us)
    edges_us = [0]
    while longest_us and edges_us[-1] < end_us:
        edges_us.append(min(edges_us[-1] + round(random.uniform(shortest_us, longest_us)), end_us))
    edges = [us_to_samples(edge) for edge in edges_us]
    first = int(random.integers(2))
    return tuple(zip(edges[first:-1:2], edges[first + 1 :: 2], strict=True))


def draw_seed(random: np.random.Generator) -> int:
    """A seed for what is random within a change."""
    return int(random.integers(2**32))


def spans_s(spans: Spans) -> list[list[float]]:
    """Stretches of samples as [start, end] in seconds."""
    return [[us_to_seconds(samples_to_us(start)), us_to_seconds(samples_to_us(end))] for start, end in spans]
