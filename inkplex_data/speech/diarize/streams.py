"""One channel into two streams, as Moshi's third training stage does (seeds/002, "Stage 3"). Pure.

A binary mask over the waveform is 1 where the main speaker is active. The masked waveform is the agent's stream,
the rest the caller's. Where both speak, the mixture goes to the agent's stream and the stretch is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import US_PER_S
from inkplex_data.problems import refusal
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn, common, intervals, speakers

Samples = npt.NDArray[np.floating[Any]]
Inactive = Literal["zero", "room"]

ROOM_PART_S: Final = 0.5


@dataclass(frozen=True)
class TwoStreams:
    """Agent and caller [n] each, as long as the waveform, in its dtype. `overlap`: where both speak, int64 [k, 2] µs."""

    agent: Samples
    caller: Samples
    main: str
    overlap: Intervals


def main_speaker(turns: Sequence[SpeakerTurn], rule: str = "most", *, seed: int = 0, key: str = "") -> str:
    """Who becomes the agent: who speaks `most` or `first`, one at `random`, or the label that `rule` names.

    `random` depends on `seed` and `key` (the call's id), so that a rerun takes the same one.
    Raises CallRefused: speakers-not-found without turns, speaker-label-unknown for a label that is not there.
    """
    found = speakers(turns)
    if not found:
        raise refusal("speakers-not-found", "nobody speaks in it")
    if rule == "most":
        return max(found, key=lambda name: found[name])
    if rule == "first":
        return next(iter(found))
    if rule == "random":
        words = np.frombuffer(key.encode() + b"\0", np.uint8).astype(np.uint32)
        return sorted(found)[int(np.random.default_rng([seed, *words.tolist()]).integers(len(found)))]
    if rule in found:
        return rule
    what = f"there is no speaker {rule!r}; the speakers are {', '.join(found)}"
    raise refusal("speaker-label-unknown", what)


def two_streams(
    samples: Samples,
    rate_hz: int,
    turns: Sequence[SpeakerTurn],
    main: str,
    *,
    inactive: Inactive = "zero",
    seed: int = 0,
) -> TwoStreams:
    """Divide float [n]. With `zero` the streams add up to `samples` exactly; `room` puts the waveform's own
    quietest stretch, repeated, where a stream is not active.
    """
    active = activity(intervals(turns, of=main), len(samples), rate_hz)
    silence = np.zeros_like(samples) if inactive == "zero" else _room_tone(samples, rate_hz, turns, seed)
    return TwoStreams(
        agent=np.where(active, samples, silence),
        caller=np.where(active, silence, samples),
        main=main,
        overlap=common(intervals(turns, of=main), intervals(turns, but=main)),
    )


def activity(spans: Intervals, samples: int, rate_hz: int) -> npt.NDArray[np.bool_]:
    """bool [samples]: whether each sample lies in the spans; a border belongs to the sample at or after it."""
    mask = np.zeros(samples, np.bool_)
    for start, end in spans.tolist():
        mask[-(-start * rate_hz // US_PER_S) : -(-end * rate_hz // US_PER_S)] = True
    return mask


def _room_tone(samples: Samples, rate_hz: int, turns: Sequence[SpeakerTurn], seed: int) -> Samples:
    """The quietest half second without speech, there and back, from a place that `seed` chooses."""
    length = min(int(ROOM_PART_S * rate_hz), len(samples))
    if not length:
        return np.zeros_like(samples)
    spoken = activity(intervals(turns), len(samples), rate_hz)
    starts = np.arange(0, len(samples) - length + 1, max(length // 4, 1))
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64) + 1e9 * spoken)])
    best = int(starts[int((energy[starts + length] - energy[starts]).argmin())])
    part = samples[best : best + length]
    loop = np.concatenate([part, part[::-1]])
    shift = int(np.random.default_rng(seed).integers(len(loop)))
    return np.resize(np.roll(loop, -shift), len(samples)).astype(samples.dtype)
