"""What a store records about the codec that made its codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.grid import CODEBOOKS

CHUNK_FRAMES: Final = 25
"""Frames per streaming step. Up to one code in a thousand depends on it (near ties), so there is one canonical
value; 25 is at least as fast as encoding a file whole, and one frame a step takes four times as long or more."""

CHUNK_SAMPLES: Final = CHUNK_FRAMES * FRAME_SAMPLES

StreamKind = Literal["whole", "live"]
"""Which past a frame hears: `whole` as the public package encodes a whole file, 250 positions; `live` as its server
encodes what is spoken to it, whose ring of 250 keys has already overwritten the oldest one of each frame's first position."""


@dataclass(frozen=True)
class CodecIdentity:
    """Two codecs with equal identities give the same codes, up to near ties between models of a processor.

    `id` is the hub id, the name of the folder or file, or `untrained:SEED`; no machine's paths are in it.
    `sha256` covers every weight by name, shape and float32 bytes, whichever format it was read from.
    `untrained` marks random weights, whose codes no released model understands.
    What follows `sample_rate_hz` decides near ties, about one code in a thousand, and `stream` more: the class of the
    device (`cpu`, `cuda`), the dtype of the arithmetic, whether CUDA may round it to TF32, and how many channels
    advance in lockstep.
    """

    id: str
    sha256: str
    untrained: bool
    codebooks: int = CODEBOOKS
    chunk_frames: int = CHUNK_FRAMES
    frame_samples: int = FRAME_SAMPLES
    sample_rate_hz: int = SAMPLE_RATE_HZ
    device: str = "cpu"
    dtype: str = "float32"
    tf32: bool = False
    batch_rows: int = 1
    stream: StreamKind = "whole"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `store.json`."""
        return asdict(self)


_BEFORE: Final[Mapping[str, Any]] = {
    "device": "cpu",
    "dtype": "float32",
    "tf32": False,
    "batch_rows": 1,
    "stream": "whole",
}
"""How codes were made while nothing of it was written down."""


def differing_arithmetic(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What two codecs of the same weights, as stores describe them, do differently: `device: cpu and cuda`, and so on.

    A field that neither a store of before nor another kind of codec wrote has the value of before.
    """
    pairs = {key: (one.get(key, old), other.get(key, old)) for key, old in _BEFORE.items()}
    return [f"{key}: {ours} and {theirs}" for key, (ours, theirs) in pairs.items() if ours != theirs]


def unusual_arithmetic(described: Mapping[str, Any]) -> list[str]:
    """What a codec, as a store describes it, does otherwise than one channel on a CPU: `device cuda`, and so on."""
    return [f"{key} {described[key]}" for key, old in _BEFORE.items() if described.get(key, old) != old]


def same_codec(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two codecs, as stores describe them, have equal identities."""
    return {**_BEFORE, **one} == {**_BEFORE, **other}
