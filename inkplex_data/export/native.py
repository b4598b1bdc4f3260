"""A call's two channels as one stereo waveform at its own rate, for files that others read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.call_audio import CallAudio
from inkplex_data.audio.call_scan import AudioScan
from inkplex_data.audio.files.write_audio import Subtype, write_wav_into
from inkplex_data.clock import SAMPLE_RATE_HZ

_AT_MOST_16_BITS: Final = frozenset({"PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW"})


def wav_subtype(containers: Iterable[str]) -> Subtype:
    """The WAV subtype that holds every sample of files of these containers (`AudioSource.container`) exactly."""
    codings = {name.partition("/")[2] for name in containers}
    return "PCM_16" if codings <= _AT_MOST_16_BITS else "FLOAT"


@dataclass(frozen=True)
class NativeStereo:
    """Left = agent, right = caller. `subtype` is the WAV subtype that holds every sample exactly.

    `resampled` is set where the two files have different rates, so that one file cannot hold both as they are.
    """

    audio: CallAudio
    scan: AudioScan

    @property
    def resampled(self) -> bool:
        return len(set(self.scan.rates_hz.values())) > 1

    @property
    def sample_rate_hz(self) -> int:
        return SAMPLE_RATE_HZ if self.resampled else self.scan.sample_rate_hz

    @property
    def subtype(self) -> Subtype:
        return "FLOAT" if self.resampled else wav_subtype(self.scan.containers.values())

    def write_into(self, file: BinaryIO, *, where: str) -> int:
        """Write a WAV file into an open file, and return its samples. Raises UsageError as `write_wav_into` does."""
        return write_wav_into(file, self.blocks(), self.sample_rate_hz, subtype=self.subtype, where=where)

    def blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """float32 [2, n]; the shorter side is followed by zeros. Looks for no faults: that is what the scan did."""
        if self.resampled:
            yield from map(np.stack, self.audio.streams(samples=self.scan.samples))
        elif self.audio.is_one_file:
            chosen = [self.audio.agent.channel_index, self.audio.caller.channel_index]
            for block in self.audio.agent.source.blocks():
                yield block[chosen]
        else:
            nothing = np.zeros(0, np.float32)
            sides = (self.audio.agent.blocks(), self.audio.caller.blocks())
            for pair in zip_longest(*sides, fillvalue=nothing):
                length = max(len(side) for side in pair)
                yield np.stack([np.pad(side, (0, length - len(side))) for side in pair])
