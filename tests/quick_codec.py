"""A codec without a model, for tests whose subject is not the codec: any sample changes every code after it."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import FRAME_SAMPLES
from inkplex_data.grid import AUDIO_CARD, CODEBOOKS
from inkplex_data.speech.codec import KINDS
from inkplex_data.speech.codec_identity import CodecIdentity
from inkplex_data.speech.codec_stream import Codec, CodecStream, Codes, Samples, checked_codes

QUICK = "quick:"


class QuickStream(CodecStream):
    """A code is drawn by a checksum of all samples up to its frame's end, as coarse as 8 bits."""

    _sum = 0

    def encode_chunk(self, samples: Samples, codes: Codes) -> None:
        coarse = (samples * 128).clip(-128, 127).astype(np.int8).reshape(len(codes), -1)
        for frame, row in zip(coarse, codes, strict=True):
            self._sum = zlib.crc32(frame.tobytes(), self._sum)
            row[:] = np.random.default_rng(self._sum).integers(0, AUDIO_CARD, CODEBOOKS)


class QuickCodec(Codec):
    identity = CodecIdentity(QUICK, sha256="1" * 64, untrained=True)

    def stream(self) -> QuickStream:
        return QuickStream()

    def decode(self, codes: npt.ArrayLike) -> Samples:
        return np.repeat(checked_codes(codes)[0] / np.float32(AUDIO_CARD), FRAME_SAMPLES)


def register() -> None:
    """Make it known in this process; others that a test starts do not know it."""
    KINDS.setdefault(QUICK.rstrip(":"), lambda name, run: QuickCodec())
