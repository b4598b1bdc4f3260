"""The Mimi codec around `transformers.MimiModel`: canonical streaming chunks, flat memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from transformers import MimiConfig, MimiModel
from transformers.initialization import no_init_weights

from inkplex_data.clock import FRAME_SAMPLES, frames_of_samples
from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.grid import AUDIO_CARD, CODEBOOKS
from inkplex_data.heap import return_freed_memory
from inkplex_data.speech.codec_decode import decode_windows
from inkplex_data.speech.codec_identity import CHUNK_FRAMES, CHUNK_SAMPLES, CodecIdentity
from inkplex_data.speech.codec_weights import State, common_name, quantizers, state_sha256
from inkplex_data.torch_settings import exact_convolutions, torch_threads

Codes = npt.NDArray[np.uint16]
Samples = npt.NDArray[np.float32]

TRIM_CHUNKS = 32
"""Chunks, about a minute of audio, after which freed memory goes back to the system."""


def build_model(state: State, *, where: str) -> MimiModel:
    """A `MimiModel` with exactly the tensors of `state` (common names); they are shared, not copied.

    Raises CheckpointError, naming tensors, where the state does not fit.
    """
    count = quantizers(state)
    if not CODEBOOKS <= count <= 1_024:
        raise CheckpointError(
            f"{count} codebooks; a Mimi codec has at least {CODEBOOKS}",
            where=where,
            next_step="Check that the file is Mimi's (tokenizer-*.safetensors), not the language model's.",
        )
    # Every weight is replaced below, so initialising them would be two seconds for nothing.
    with no_init_weights():
        model = MimiModel(MimiConfig(num_quantizers=count))
    expected = {common_name(name): name for name in model.state_dict()}
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    faults = [f"{name}: missing" for name in expected if name not in state]
    faults += [f"{name}: not a tensor of Mimi" for name in state if name not in expected]
    faults += [
        f"{name}: shape {tuple(tensor.shape)}, Mimi has {shapes[expected[name]]}"
        for name, tensor in state.items()
        if name in expected and tuple(tensor.shape) != shapes[expected[name]]
    ]
    if faults:
        more = f"\n  - and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise CheckpointError(
            "\n  - ".join(["these weights are not Mimi's", *faults[:8]]) + more,
            where=where,
            next_step="Use the weights of kyutai/mimi, or the tokenizer-*.safetensors of Moshi or PersonaPlex.",
        )
    model.load_state_dict(
        {expected[name]: tensor for name, tensor in state.items()}, strict=True, assign=True
    )
    return model.eval().requires_grad_(False)


class MimiCodec:
    """One loaded Mimi. Encoding streams in chunks of 25 frames; the first eight codebooks are used.

    `model` is the `transformers.MimiModel`, `identity` what a store records.
    """

    def __init__(
        self, codec_id: str, state: State, untrained: bool, *, device: str = "cpu", threads: int = 1
    ) -> None:
        if threads < 1:
            raise UsageError(f"a codec needs at least one thread, got {threads}")
        self.model = build_model(state, where=codec_id)
        self.identity = CodecIdentity(codec_id, state_sha256(state), untrained)
        self.threads = threads
        try:
            self.device = torch.device(device)
            self.model.to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"the device {device!r} is not usable: {str(error).splitlines()[0]}",
                where="--device",
                next_step="Use --device cpu, or install a torch build for this accelerator.",
            ) from error

    def __repr__(self) -> str:
        return f"MimiCodec({self.identity.id!r}, sha256={self.identity.sha256[:12]}…)"

    def stream(self) -> MimiStream:
        """A new encoder stream; the codec's state starts afresh with each."""
        return MimiStream(self)

    def encode(self, chunks: npt.ArrayLike | Iterable[npt.ArrayLike]) -> Codes:
        """Codes uint16 [frames, 8] of a whole waveform: one array [samples], or its pieces in order.

        However the pieces are cut, the codes are the same, because the stream cuts anew.
        The last frame is padded with zeros: frames = ceil(samples / 1,920).
        """
        stream = self.stream()
        pieces = [chunks] if isinstance(chunks, np.ndarray) else chunks
        parts = [stream.push(piece) for piece in pieces]  # type: ignore[union-attr]
        return np.concatenate([*parts, stream.finish()])

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

    def decode(self, codes: npt.ArrayLike) -> Samples:
        """Waveform float32 [frames × 1,920] of codes [8, frames]; memory does not grow with the length.

        Fewer than eight codebooks (at least the semantic one) give a coarser waveform.
        Raises UsageError for another shape or for ids outside 0–2047.
        """
        array = np.asarray(codes)
        if array.ndim != 2 or not 1 <= array.shape[0] <= CODEBOOKS:
            raise UsageError(
                f"codes to decode are [codebooks, frames] with at most {CODEBOOKS} codebooks, "
                f"got shape {list(array.shape)}",
                next_step="Pass the transpose: `encode` gives [frames, 8]."
                if array.shape[-1:] == (8,)
                else None,
            )
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < AUDIO_CARD:
            raise UsageError(f"audio codes are 0–{AUDIO_CARD - 1}, got {array.min()}–{array.max()}")
        with torch.inference_mode(), torch_threads(self.threads), exact_convolutions(self.device):
            tensor = torch.from_numpy(array.astype(np.int64)).to(self.device)
            return decode_windows(self.model, tensor)


SLAB_FRAMES: Final = 65_536


class MimiStream:
    """Encodes one waveform as it comes. Holds at most one chunk of samples and ten seconds of attention.

    The chunks that Mimi sees are always the same: 25 whole frames each, and at the end what is left,
    zero-padded to a whole frame.
    """

    def __init__(self, codec: MimiCodec) -> None:
        self._codec = codec
        self._held = np.zeros(CHUNK_SAMPLES, dtype=np.float32)
        self._fill = 0
        self._cache: Any = None
        self._padding_cache: Any = None
        self._state: dict[str, torch.Tensor] = {}
        self._slab = np.empty((SLAB_FRAMES, CODEBOOKS), np.uint16)
        self._slab_used = 0
        self._finished = False
        self._chunks = 0
        self.samples = 0
        """Samples taken so far, padding not counted."""

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
                self._encode(codes[done : done + CHUNK_FRAMES])
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
            self._encode(codes)
        self._cache = self._padding_cache = None
        self._state.clear()
        return codes

    def _room(self, frames: int) -> Codes:
        """A part [frames, 8] of one array that was allocated before Mimi ran.

        Arrays of their own would each come from the room that the last chunk's activations left, the next
        chunk's would no longer fit there, and the heap would grow by megabytes for every minute of codes kept.
        """
        if self._slab_used + frames > len(self._slab):
            self._slab = np.empty((max(SLAB_FRAMES, frames), CODEBOOKS), np.uint16)
            self._slab_used = 0
        self._slab_used += frames
        return self._slab[self._slab_used - frames : self._slab_used]

    def _encode(self, codes: Codes) -> None:
        """Encode the held samples of as many frames as `codes` [f, 8] has, into it."""
        codec = self._codec
        with torch.inference_mode(), torch_threads(codec.threads), exact_convolutions(codec.device):
            # A copy: Mimi's padding cache keeps views of its input, and the buffer is filled again.
            chunk = torch.tensor(self._held[: len(codes) * FRAME_SAMPLES], device=codec.device)[None, None]
            output = codec.model.encode(
                chunk,
                num_quantizers=CODEBOOKS,
                encoder_cache=self._cache,
                padding_cache=self._padding_cache,
                use_streaming=True,
            )
            codes[:] = output.audio_codes[0].T.cpu().numpy()
            self._keep(output.encoder_cache, output.padding_cache)
        self._fill = 0
        self._chunks += 1
        if self._chunks % TRIM_CHUNKS == 0:
            return_freed_memory()

    def _keep(self, cache: Any, padding_cache: Any) -> None:
        """Carry Mimi's state over to the next chunk, in the same memory each time.

        The caches hold views of the last few columns of every layer's input, which keep whole chunks of
        activations alive.
        """
        states = padding_cache.padding_cache
        for index, state in enumerate(states):
            states[index] = self._in_place(f"padding {index}", state)
        for index, layer in enumerate(cache.layers):
            layer.keys = self._in_place(f"keys {index}", layer.keys)
            layer.values = self._in_place(f"values {index}", layer.values)
        self._cache, self._padding_cache = cache, padding_cache

    def _in_place(self, name: str, state: torch.Tensor) -> torch.Tensor:
        kept = self._state.get(name)
        if kept is None or kept.shape != state.shape:
            kept = self._state[name] = torch.empty(state.shape, dtype=state.dtype, device=state.device)
        return kept.copy_(state)
