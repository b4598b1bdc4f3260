"""The changes of an `AugmentPlan` on streams of 24 kHz audio, in flat memory. A plan without changes passes the very
same samples on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from inkplex_data.audio.augment_plan import AugmentPlan, NoisePlan, reverb_taps
from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.fir import StreamDelay, StreamFir
from inkplex_data.audio.noise import BLOCK_SAMPLES, coloured_noise, recorded_noise

FADE_SAMPLES: Final = 240
"""10 ms in which the agent's voice ends before a cut, so that the cut itself does not click."""

Chunks = Iterable[Samples]


def change_agent(chunks: Chunks, plan: AugmentPlan) -> Iterator[Samples]:
    """The agent's stream with the plan's cuts: digital silence inside them, faded out over the 10 ms before."""
    if not plan.cuts:
        yield from chunks
        return
    at = 0
    for chunk in chunks:
        end = at + len(chunk)
        touching = [cut for cut in plan.cuts if cut[0] - FADE_SAMPLES < end and cut[1] > at]
        yield _faded(chunk, at, touching) if touching else chunk
        at = end


def _faded(chunk: Samples, at: int, cuts: Iterable[tuple[int, int]]) -> Samples:
    position = np.arange(at, at + len(chunk))
    out = chunk.copy()
    for start, end in cuts:
        inside = position < end
        out[inside] *= np.clip((start - position[inside]) / FADE_SAMPLES, 0.0, 1.0).astype(np.float32)
    return out


def change_caller(
    chunks: Chunks,
    plan: AugmentPlan,
    *,
    samples: int,
    rms: float,
    agent: Chunks = (),
    noise_folder: Path | None = None,
) -> Iterator[Samples]:
    """The caller's stream of `samples` with gain, reverberation, echo, noise and silences, in this order.

    `rms` is that of the whole stream as it comes in; the noise's own is measured first, so that their ratio is
    exactly the plan's. `agent` is the agent's stream, read in step for the echo of a room. A silent caller gets no noise: there
    is nothing that it could be relative to.
    """
    if not plan.changes_caller:
        yield from chunks
        return
    gain = 1.0 if plan.gain_db is None else 10.0 ** (plan.gain_db / 20.0)
    fir = delay = echo = None
    if plan.room is not None:
        fir = StreamFir(reverb_taps(plan.room))
        delay = StreamDelay(plan.room.delay_samples)
        echo = rechunk(agent, BLOCK_SAMPLES)
    noise, noise_gain = None, 0.0
    if plan.noise is not None and rms > 0.0:
        noise_gain = _noise_gain(plan.noise, samples, gain * rms, noise_folder)
        noise = noise_blocks(plan.noise, samples, noise_folder)
    at = 0
    for chunk in rechunk(chunks, BLOCK_SAMPLES):
        out = chunk if plan.gain_db is None else chunk * np.float32(gain)
        if fir is not None and delay is not None and echo is not None and plan.room is not None:
            out = fir.push(out) + np.float32(plan.room.echo) * delay.push(next(echo))
        if noise is not None:
            out = out + np.float32(noise_gain) * next(noise)
        yield _silenced(out, at, plan.silences)
        at += len(chunk)


def noise_blocks(plan: NoisePlan, samples: int, folder: Path | None) -> Iterator[Samples]:
    """The plan's noise before its gain: float32 blocks of 48,000, `samples` in total."""
    if plan.file is not None:
        return recorded_noise((folder or Path()) / plan.file, samples, start=plan.start)
    random = np.random.Generator(np.random.PCG64(plan.seed))
    return coloured_noise(plan.colour or "white", samples, random)


def _noise_gain(plan: NoisePlan, samples: int, rms: float, folder: Path | None) -> float:
    squares = sum(
        float(np.square(block, dtype=np.float64).sum()) for block in noise_blocks(plan, samples, folder)
    )
    own = (squares / samples) ** 0.5 if samples else 0.0
    return rms * 10.0 ** (plan.level_db / 20.0) / own if own else 0.0


def _silenced(chunk: Samples, at: int, silences: Iterable[tuple[int, int]]) -> Samples:
    touching = [(start, end) for start, end in silences if start < at + len(chunk) and end > at]
    if not touching:
        return chunk
    out = chunk.copy()
    for start, end in touching:
        out[max(start - at, 0) : end - at] = 0.0
    return out
