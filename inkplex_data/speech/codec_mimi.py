"""The Mimi codec around `transformers.MimiModel`: canonical streaming chunks, flat memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import MimiConfig, MimiModel
from transformers.initialization import no_init_weights

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.heap import return_freed_memory
from inkplex_data.speech.codec_decode import decode_windows
from inkplex_data.speech.codec_identity import CodecIdentity
from inkplex_data.speech.codec_stream import Codec, CodecStream, Codes, Samples, checked_codes
from inkplex_data.speech.codec_weights import State, common_name, quantizers, state_sha256
from inkplex_data.torch_settings import exact_convolutions, torch_threads

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


class MimiCodec(Codec):
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

    def decode(self, codes: npt.ArrayLike) -> Samples:
        """Waveform float32 [frames × 1,920] of codes [8, frames]; memory does not grow with the length.

        Fewer than eight codebooks (at least the semantic one) give a coarser waveform.
        Raises UsageError for another shape or for ids outside 0–2047.
        """
        array = checked_codes(codes)
        with torch.inference_mode(), torch_threads(self.threads), exact_convolutions(self.device):
            tensor = torch.from_numpy(array.astype(np.int64)).to(self.device)
            return decode_windows(self.model, tensor)


class MimiStream(CodecStream):
    """Holds ten seconds of attention besides its samples."""

    def __init__(self, codec: MimiCodec) -> None:
        super().__init__()
        self._codec = codec
        self._cache: Any = None
        self._padding_cache: Any = None
        self._state: dict[str, torch.Tensor] = {}
        self._chunks = 0

    def finish(self) -> Codes:
        codes = super().finish()
        self._cache = self._padding_cache = None
        self._state.clear()
        return codes

    def encode_chunk(self, samples: Samples, codes: Codes) -> None:
        codec = self._codec
        with torch.inference_mode(), torch_threads(codec.threads), exact_convolutions(codec.device):
            # A copy: Mimi's padding cache keeps views of its input, and the buffer is filled again.
            chunk = torch.tensor(samples, device=codec.device)[None, None]
            output = codec.model.encode(
                chunk,
                num_quantizers=CODEBOOKS,
                encoder_cache=self._cache,
                padding_cache=self._padding_cache,
                use_streaming=True,
            )
            codes[:] = output.audio_codes[0].T.cpu().numpy()
            self._keep(output.encoder_cache, output.padding_cache)
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
