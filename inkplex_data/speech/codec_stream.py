"""What a codec is: streams that take samples as they come and give codes in chunks of 25 frames, and a way back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import FRAME_SAMPLES, frames_of_samples
from inkplex_data.errors import UsageError
from inkplex_data.grid import AUDIO_CARD, CODEBOOKS
from inkplex_data.speech.codec_identity import CHUNK_FRAMES, CHUNK_SAMPLES, CodecIdentity

Codes = npt.NDArray[np.uint16]
Samples = npt.NDArray[np.float32]

SLAB_FRAMES: Final = 65_536


class Codec(ABC):
    """What a build, a generator and the command line need of a codec.

    `identity` is what a store records.
    """

    identity: CodecIdentity

    @abstractmethod
    def stream(self) -> CodecStream:
        """A new encoder stream; the codec's state starts afresh with each."""

    @abstractmethod
    def decode(self, codes: npt.ArrayLike) -> Samples:
        """Waveform float32 [frames × 1,920] of codes [8, frames].

        Raises UsageError for another shape or for ids outside 0–2047.
        """

    def encode(self, chunks: Samples | Iterable[npt.ArrayLike]) -> Codes:
        """Codes uint16 [frames, 8] of a whole waveform: one array [samples], or its pieces in order.

        However the pieces are cut, the codes are the same, because the stream cuts anew.
        The last frame is padded with zeros: frames = ceil(samples / 1,920).
        """
        stream = self.stream()
        pieces = [chunks] if isinstance(chunks, np.ndarray) else chunks
        parts = [stream.push(piece) for piece in pieces]
        return np.concatenate([*parts, stream.finish()])

    def encode_batch(self, waveforms: Sequence[Iterable[npt.ArrayLike]]) -> list[Codes]:
        """Codes uint16 [frames, 8] of several waveforms, each as `encode` gives them; a codec that can runs them in step.

        Raises UsageError for more waveforms than the codec has rows.
        """
        return [self.encode(waveform) for waveform in waveforms]

    def encode_pair(self, pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Codes:
        """Codes uint16 [frames, 16] of two waveforms of one length that come in step, each a stream of its own.

        The first eight columns are those of `encode` over the first parts, the others those over the second.
        """
        streams = self.stream(), self.stream()
        parts: tuple[list[Codes], list[Codes]] = ([], [])
        for pair in pairs:
            for stream, own, piece in zip(streams, parts, pair, strict=True):
                own.append(stream.push(piece))
        for stream, own in zip(streams, parts, strict=True):
            own.append(stream.finish())
        return np.concatenate([np.concatenate(own) for own in parts], axis=1)


class CodecStream(ABC):
    """Encodes one waveform as it comes. Holds at most one chunk of samples.

    The chunks that a codec sees are always the same: 25 whole frames each, and at the end what is left,
    zero-padded to a whole frame.
    """

    def __init__(self) -> None:
        self._held = np.zeros(CHUNK_SAMPLES, dtype=np.float32)
        self._fill = 0
        self._slab = np.empty((SLAB_FRAMES, CODEBOOKS), np.uint16)
        self._slab_used = 0
        self._finished = False
        self.samples = 0
        """Samples taken so far, padding not counted."""

    @abstractmethod
    def encode_chunk(self, samples: Samples, codes: Codes) -> None:
        """Encode float32 [f × 1,920], which is not to be kept, into `codes` uint16 [f, 8]; f is at most 25."""

    def push(self, samples: npt.ArrayLike) -> Codes:
        """Take samples float32 [n], any n; give the codes uint16 [f, 8] of the chunks they complete (f may be 0).

        Raises UsageError for a wrong shape, samples that are not finite, or a finished stream.
        """
        if self._finished:
            raise UsageError("this stream is finished", next_step="Open another with codec.stream().")
        piece = np.asarray(samples, dtype=np.float32)
        if piece.ndim != 1:
            raise UsageError(f"a stream takes one channel [samples], got shape {list(piece.shape)}")
        if not np.isfinite(piece).all():
            raise UsageError(
                f"sample {self.samples + int(np.argmin(np.isfinite(piece)))} is not finite",
                next_step="Codes after it would be meaningless; repair or refuse the audio first.",
            )
        self.samples += len(piece)
        codes = self._room((self._fill + len(piece)) // CHUNK_SAMPLES * CHUNK_FRAMES)
        start = done = 0
        while start < len(piece):
            taken = min(CHUNK_SAMPLES - self._fill, len(piece) - start)
            self._held[self._fill : self._fill + taken] = piece[start : start + taken]
            self._fill += taken
            start += taken
            if self._fill == CHUNK_SAMPLES:
                self.encode_chunk(self._held, codes[done : done + CHUNK_FRAMES])
                self._fill = 0
                done += CHUNK_FRAMES
        return codes

    def finish(self) -> Codes:
        """Codes uint16 [f, 8] of the samples that did not fill a chunk; the stream is closed."""
        if self._finished:
            raise UsageError("this stream is finished", next_step="Open another with codec.stream().")
        self._finished = True
        codes = self._room(frames_of_samples(self._fill))
        if len(codes):
            self._held[self._fill :] = 0
            self.encode_chunk(self._held[: len(codes) * FRAME_SAMPLES], codes)
        return codes

    def _room(self, frames: int) -> Codes:
        """A part [frames, 8] of one array that was allocated before the codec ran.

        Arrays of their own would each come from the room that the last chunk's activations left, the next
        chunk's would no longer fit there, and the heap would grow by megabytes for every minute of codes kept.
        """
        if self._slab_used + frames > len(self._slab):
            self._slab = np.empty((max(SLAB_FRAMES, frames), CODEBOOKS), np.uint16)
            self._slab_used = 0
        self._slab_used += frames
        return self._slab[self._slab_used - frames : self._slab_used]


def checked_codes(codes: npt.ArrayLike) -> npt.NDArray[Any]:
    """Codes [codebooks, frames] that can be decoded.

    Raises UsageError for another shape, more than eight codebooks, or ids outside 0–2047.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or not 1 <= array.shape[0] <= CODEBOOKS:
        raise UsageError(
            f"codes to decode are [codebooks, frames] with at most {CODEBOOKS} codebooks, "
            f"got shape {list(array.shape)}",
            next_step="Pass the transpose: `encode` gives [frames, 8]." if array.shape[-1:] == (8,) else None,
        )
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < AUDIO_CARD:
        raise UsageError(f"audio codes are 0–{AUDIO_CARD - 1}, got {array.min()}–{array.max()}")
    return array
