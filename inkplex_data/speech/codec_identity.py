"""What a store records about the codec that made its codes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from inkplex_data.clock import FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.grid import CODEBOOKS

CHUNK_FRAMES: Final = 25
"""Frames per streaming step. Up to one code in a thousand depends on it (near ties), so there is one canonical
value; 25 is at least as fast as encoding a file whole, and one frame a step takes four times as long or more."""

CHUNK_SAMPLES: Final = CHUNK_FRAMES * FRAME_SAMPLES


@dataclass(frozen=True)
class CodecIdentity:
    """Two codecs with equal identities give the same codes, up to near ties between kinds of processor.

    `id` is the hub id, the name of the folder or file, or `untrained:SEED`; no machine's paths are in it.
    `sha256` covers every weight by name, shape and float32 bytes, whichever format it was read from.
    `untrained` marks random weights, whose codes no released model understands.
    """

    id: str
    sha256: str
    untrained: bool
    codebooks: int = CODEBOOKS
    chunk_frames: int = CHUNK_FRAMES
    frame_samples: int = FRAME_SAMPLES
    sample_rate_hz: int = SAMPLE_RATE_HZ

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `store.json`."""
        return asdict(self)
