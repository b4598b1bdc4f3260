"""What a call's history does to the agent's side: what a device did not play is gone from sound and words, and nothing
that was perhaps not heard carries loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.augment_caller import Spans, spans_s
from inkplex_data.clock import FRAME_US, us_to_samples
from inkplex_data.corpus.sidecars.playback import Unheard, unheard_spans
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar, Transform
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_TEXT
from inkplex_data.problems import ProblemLog


@dataclass(frozen=True)
class PlaybackCuts:
    """The stretches of a call of `samples` samples that were not heard, or may not have been. `is_single`: the agent's
    voice cannot be taken out of a mixture, which only loses the loss."""

    unheard: tuple[Unheard, ...]
    samples: int
    is_single: bool = False

    @classmethod
    def of(cls, sidecar: Sidecar | None, samples: int, *, is_single: bool = False) -> PlaybackCuts:
        return cls(tuple(unheard_spans(sidecar)) if sidecar is not None else (), samples, is_single)

    @property
    def silenced(self) -> Spans:
        """What is known not to have been heard, in samples at 24 kHz."""
        if self.is_single:
            return ()
        cuts = ((us_to_samples(cut.start_us), us_to_samples(cut.end_us)) for cut in self.unheard if cut.known)
        return tuple((start, min(end, self.samples)) for start, end in sorted(cuts) if start < self.samples)

    def mask(self, frames: int) -> npt.NDArray[np.uint8]:
        """uint8 [frames]: all modalities but text and agent in each frame that such a stretch touches."""
        mask = np.full(frames, MASK_ALL, np.uint8)
        for cut in self.unheard:
            mask[cut.start_us // FRAME_US : -(-cut.end_us // FRAME_US)] &= np.uint8(
                MASK_ALL ^ (MASK_AGENT | MASK_TEXT)
            )
        return mask

    def transforms(self) -> list[Transform]:
        """What was done to the sound, as the sidecar records it."""
        if not self.silenced:
            return []
        return [
            Transform(name="playback-cut", settings={"channel": "agent", "cuts_s": spans_s(self.silenced)})
        ]

    def tell(self, log: ProblemLog, *, words: int) -> None:
        """Note both kinds; `words`: how many ended early or are gone."""
        known, unknown = ([cut for cut in self.unheard if cut.known is which] for which in (True, False))
        if known:
            log.add("playback-cut", f"{_told(known)}; {words} words ended early or are gone")
        if unknown:
            log.add("playback-unknown", _told(unknown))


def _told(cuts: list[Unheard]) -> str:
    return ", ".join(f"{cut.segment} from {cut.start_us} to {cut.end_us} µs" for cut in cuts)
