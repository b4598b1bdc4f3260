"""The changes of an `AugmentPlan` on streams of 24 kHz audio, in flat memory. A plan without changes passes the very
same samples on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from inkplex_data.audio.augment_caller import Surroundings
from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.audio.files.blocks import rechunk
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.noise import BLOCK_SAMPLES

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


def change_caller(chunks: Chunks, plan: AugmentPlan, around: Surroundings) -> Iterator[Samples]:
    """The caller's stream with the plan's changes, one after the other. `around` is told of the stream as it comes in."""
    if not plan.caller:
        yield from chunks
        return
    blocks = rechunk(chunks, BLOCK_SAMPLES)
    for change in plan.caller:
        blocks = change.apply(blocks, around)
        around = replace(around, rms=change.rms_after(around.rms))
    yield from blocks
