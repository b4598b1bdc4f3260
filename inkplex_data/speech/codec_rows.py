"""Channels that advance through one `MimiModel` in lockstep, and what the model keeps of their past."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import MimiModel

from inkplex_data.clock import FRAME_SAMPLES
from inkplex_data.errors import UsageError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.heap import return_freed_memory
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES
from inkplex_data.speech.codec_stream import CodecStream, Codes, Samples
from inkplex_data.torch_settings import exact_convolutions, torch_threads

TRIM_CHUNKS: Final = 32
"""Chunks, about a minute of audio, after which freed memory goes back to the system."""

WINDOW: Final = 250
"""Positions that attention reaches back to, the present one included; two of them are a frame."""


class MimiRows:
    """`count` channels that began together. Holds ten seconds of attention for each."""

    def __init__(
        self, model: MimiModel, count: int, *, live: bool, device: torch.device, threads: int
    ) -> None:
        self.count = count
        self.padding_cache: Any = None
        self.cache: Any = None
        self._model, self._live, self._device, self._threads = model, live, device, threads
        self._kept: dict[str, torch.Tensor] = {}
        self._positions = self._chunks = 0

    def step(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Codes int64 [count, f, 8] of the next samples float32 [count, f × 1,920], which are not kept."""
        with torch.inference_mode(), torch_threads(self._threads), exact_convolutions(self._device):
            # A copy: Mimi's padding cache keeps views of its input, and the buffer is filled again.
            chunk = torch.tensor(samples, device=self._device)[:, None]
            positions = 2 * samples.shape[1] // FRAME_SAMPLES
            seen = {"attention_mask": self._live_mask(positions)} if self._live else {}
            output = self._model.encode(
                chunk,
                num_quantizers=CODEBOOKS,
                encoder_cache=self.cache,
                padding_cache=self.padding_cache,
                use_streaming=True,
                **seen,
            )
            codes = output.audio_codes.transpose(1, 2).cpu().numpy()
            self._keep(output.encoder_cache, output.padding_cache)
        self._positions += positions
        self._chunks += 1
        if self._chunks % TRIM_CHUNKS == 0:
            return_freed_memory()
        return codes

    def forget(self) -> None:
        """Let go of the past; the rows are of no use afterwards."""
        self.cache = self.padding_cache = None
        self._kept.clear()

    def _live_mask(self, count: int) -> torch.Tensor:
        """bool [1, 1, count, cached + count]: which keys each of the next positions sees in a live server.

        There a step is one frame, and both its keys are in the ring before the first of them looks back.
        """
        cached = min(self._positions, WINDOW - 1)
        query = torch.arange(self._positions, self._positions + count, device=self._device)[:, None]
        key = torch.arange(self._positions - cached, self._positions + count, device=self._device)
        return ((key <= query) & (key > query - WINDOW + (query + 1) % 2))[None, None]

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
        self.cache, self.padding_cache = cache, padding_cache

    def _in_place(self, name: str, state: torch.Tensor) -> torch.Tensor:
        kept = self._kept.get(name)
        if kept is None or kept.shape != state.shape:
            kept = self._kept[name] = torch.empty(state.shape, dtype=state.dtype, device=state.device)
        return kept.copy_(state)


class Rows(Protocol):
    """Channels in lockstep, `count` of them: all that a model has, or a part that shares it with others."""

    count: int

    def step(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Codes int64 [count, 25, 8] of the next samples float32 [count, 48,000], which are not kept."""


def encode_rows(rows: Rows, waveforms: Sequence[Iterable[npt.ArrayLike]]) -> list[Codes]:
    """Codes uint16 [frames, 8] of each waveform. The model sees whole chunks of all rows, zeros where one has no more.

    Raises UsageError for more waveforms than rows, and for samples that are none.
    """
    if len(waveforms) > rows.count:
        raise UsageError(
            f"{len(waveforms)} waveforms for a batch of {rows.count} rows",
            next_step="Encode them in several batches.",
        )
    sources = [_chunks(waveform) for waveform in waveforms]
    parts: list[list[Codes]] = [[np.empty((0, CODEBOOKS), np.uint16)] for _ in waveforms]
    beside = np.zeros((rows.count, CHUNK_SAMPLES), np.float32)
    while True:
        beside[:] = 0
        frames: dict[int, int] = {}
        for row, source in enumerate(sources):
            chunk = next(source, None)
            if chunk is not None:
                beside[row, : len(chunk)] = chunk
                frames[row] = len(chunk) // FRAME_SAMPLES
        if not frames:
            return [np.concatenate(own) for own in parts]
        codes = rows.step(beside)
        for row, count in frames.items():
            parts[row].append(codes[row, :count].astype(np.uint16))


def encode_pair_rows(rows: Rows, pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Codes:
    """Codes uint16 [frames, 16] of two waveforms of one length that come in step, as `Codec.encode_pair` gives them."""
    one, other = itertools.tee(pairs)
    return np.concatenate(encode_rows(rows, [(own for own, _ in one), (own for _, own in other)]), axis=1)


class _Cutter(CodecStream):
    """Cuts as every stream does, and keeps the chunks for whoever asks."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[Samples] = []

    def encode_chunk(self, samples: Samples, codes: Codes) -> None:
        self.chunks.append(samples.copy())


def _chunks(waveform: Iterable[npt.ArrayLike]) -> Iterator[Samples]:
    """The chunks of 25 frames of a waveform, the last one of what is left, in whole frames."""
    cutter = _Cutter()
    for piece in [waveform] if isinstance(waveform, np.ndarray) else waveform:
        cutter.push(piece)
        yield from cutter.chunks
        cutter.chunks.clear()
    cutter.finish()
    yield from cutter.chunks
