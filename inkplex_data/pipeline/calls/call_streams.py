"""The two sides of a call as the codec is to hear them, before augmentation: at 24 kHz, their band widened if asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.band import is_telephony
from inkplex_data.audio.call_audio import CallAudio
from inkplex_data.audio.call_scan import ROLES, Role
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.sidecars.sidecar_models import Transform
from inkplex_data.errors import UsageError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.scan_call import Scan

Chunks = Iterator[npt.NDArray[np.float32]]


@dataclass(frozen=True)
class CallStreams:
    """Opens each side as often as it is asked for; every stream has `scan.samples` samples."""

    audio: CallAudio
    scan: Scan
    recipe: Recipe

    def open(self, role: Role) -> Chunks:
        """float32 chunks [n] of one side. Raises CallRefused where the audio differs from its scan."""
        chunks = self.audio.stream(role, samples=self.scan.samples)
        extension = tools.bandwidth(self.recipe.audio.bandwidth)
        band_hz = self.scan.band_hz(role)
        if extension is None or band_hz is None or not is_telephony(band_hz):
            return chunks
        return _counted(extension.extend(chunks, band_hz=band_hz), self.scan.samples, extension.identity)

    def transforms(self) -> list[Transform]:
        """What `open` does to the sound besides resampling."""
        extension = tools.bandwidth(self.recipe.audio.bandwidth)
        if extension is None:
            return []
        return [
            Transform(
                name="bandwidth-extension",
                settings={"channel": role, "model": extension.identity, "band_hz": self.scan.band_hz(role)},
            )
            for role in ROLES
            if is_telephony(self.scan.band_hz(role))
        ]


def _counted(chunks: Iterable[npt.NDArray[np.float32]], samples: int, what: str) -> Chunks:
    done = 0
    for chunk in chunks:
        done += len(chunk)
        yield chunk
    if done != samples:
        raise UsageError(f"the bandwidth extension {what!r} made {done:,} samples of {samples:,}")
