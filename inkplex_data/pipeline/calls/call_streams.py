"""The two sides of a call as the codec is to hear them, before augmentation: at 24 kHz, their band widened if asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.augment_caller import Spans
from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.audio.augment_streams import change_agent
from inkplex_data.audio.band import is_telephony
from inkplex_data.audio.call_audio import CHUNK_SAMPLES, CallAudio
from inkplex_data.audio.call_scan import SIDES, Side
from inkplex_data.audio.files.blocks import rechunk, twice
from inkplex_data.audio.resample import RESAMPLER
from inkplex_data.clock import SAMPLE_RATE_HZ
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.sidecars.sidecar_models import Transform
from inkplex_data.errors import UsageError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.scan_call import Scan

Chunks = Iterator[npt.NDArray[np.float32]]


@dataclass(frozen=True)
class CallStreams:
    """Opens both sides as often as they are asked for; every stream has `scan.samples` samples. The agent's is silent in
    `silenced`, in samples at 24 kHz."""

    audio: CallAudio
    scan: Scan
    recipe: Recipe
    silenced: Spans = ()

    def open(self) -> tuple[Chunks, Chunks]:
        """Agent and caller in float32 chunks [n] of 25 frames, the last one shorter, from one decoding.

        To be read in step: what one side is ahead of the other is held in memory. Raises CallRefused where the
        audio differs from its scan.
        """
        first, second = twice(self.audio.streams(samples=self.scan.samples))
        agent, caller = (pair[0] for pair in first), (pair[1] for pair in second)
        heard = change_agent(agent, AugmentPlan(cuts=self.silenced))
        return self._widened("agent", heard), self._widened("caller", caller)

    def _widened(self, side: Side, chunks: Chunks) -> Chunks:
        extension = tools.bandwidth(self.recipe.audio.bandwidth)
        band_hz = self.scan.band_hz(side)
        if extension is None or band_hz is None or not is_telephony(band_hz):
            return chunks
        wide = _counted(extension.extend(chunks, band_hz=band_hz), self.scan.samples, extension.identity)
        return rechunk(wide, CHUNK_SAMPLES)

    def resampling(self) -> list[Transform]:
        """How each side came to 24 kHz; empty where both were recorded so."""
        rates_hz = {"agent": self.scan.agent_rate_hz, "caller": self.scan.caller_rate_hz}
        return [
            Transform(
                name="resample",
                settings={"channel": side, "from_hz": rate_hz, "to_hz": SAMPLE_RATE_HZ, "method": RESAMPLER},
            )
            for side, rate_hz in rates_hz.items()
            if rate_hz != SAMPLE_RATE_HZ and (side == "agent" or not self.audio.is_single)
        ]

    def transforms(self) -> list[Transform]:
        """What `open` does to the sound besides resampling."""
        extension = tools.bandwidth(self.recipe.audio.bandwidth)
        made = []
        if self.audio.is_mixed:
            made.append(Transform(name="mix", settings={"of": list(SIDES), "into": "agent"}))
        if extension is None:
            return made
        return made + [
            Transform(
                name="bandwidth-extension",
                settings={"channel": side, "model": extension.identity, "band_hz": self.scan.band_hz(side)},
            )
            for side in SIDES
            if is_telephony(self.scan.band_hz(side))
        ]


def _counted(chunks: Iterable[npt.NDArray[np.float32]], samples: int, what: str) -> Chunks:
    done = 0
    for chunk in chunks:
        done += len(chunk)
        yield chunk
    if done != samples:
        raise UsageError(f"the bandwidth extension {what!r} returned {done:,} of {samples:,} samples")
