"""Samples without a header: what they are usually called, and how somebody says what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from inkplex_data.errors import UsageError

MIN_RATE_HZ = 4_000
MAX_RATE_HZ = 768_000
MAX_CHANNELS = 64

# Names that people give to samples without a header.
_HEADERLESS = "ulaw ul mulaw pcmu alaw al pcma g711 raw pcm sln sln16 s16 s16le f32 vox gsm g722 g729"
HEADERLESS_SUFFIXES = frozenset(f".{name}" for name in _HEADERLESS.split())

RawEncoding = Literal["ulaw", "alaw", "pcm_s8", "pcm_u8", "pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_f32le"]
_RAW_SUBTYPES: dict[str, tuple[str, str]] = {
    "ulaw": ("ULAW", "FILE"),
    "alaw": ("ALAW", "FILE"),
    "pcm_s8": ("PCM_S8", "FILE"),
    "pcm_u8": ("PCM_U8", "FILE"),
    "pcm_s16le": ("PCM_16", "LITTLE"),
    "pcm_s16be": ("PCM_16", "BIG"),
    "pcm_s24le": ("PCM_24", "LITTLE"),
    "pcm_f32le": ("FLOAT", "LITTLE"),
}


@dataclass(frozen=True)
class RawFormat:
    """How to read samples that have no header: what nothing in the file can tell."""

    encoding: RawEncoding
    sample_rate_hz: int
    channels: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in _RAW_SUBTYPES:
            raise UsageError(
                f"{self.encoding!r} is not a raw encoding",
                next_step=f"Use one of {', '.join(_RAW_SUBTYPES)}.",
            )
        if not MIN_RATE_HZ <= self.sample_rate_hz <= MAX_RATE_HZ or not 1 <= self.channels <= MAX_CHANNELS:
            raise UsageError(f"raw samples cannot have {self.channels} channels at {self.sample_rate_hz} Hz")

    def soundfile_arguments(self) -> dict[str, Any]:
        subtype, endian = _RAW_SUBTYPES[self.encoding]
        return {
            "format": "RAW",
            "subtype": subtype,
            "endian": endian,
            "samplerate": self.sample_rate_hz,
            "channels": self.channels,
        }
