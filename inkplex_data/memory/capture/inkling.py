"""Inkling from transformers, as far as hidden rows need it: loaded, named by its weights, run chunk by chunk.

Rows (seeds/000, "Current sequence memory", sections 1 and 3): 28 and 34 are the completed outputs of the
zero-based blocks of those numbers, 42 is the output of the final RMSNorm. The readout is never computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from inkplex_data.libraries import require
from inkplex_data.memory.capture.capture_plan import ChunkRule
from inkplex_data.memory.capture.inkling_small import build_small
from inkplex_data.memory.capture.inkling_source import find_checkpoint, small_seed
from inkplex_data.memory.capture.inkling_weights import (
    LoadedWeights,
    execution_device,
    load_weights,
    one_device,
    quiet_transformers,
    room_bytes,
    weights_sha256,
)
from inkplex_data.memory.capture.row_taps import RowTaps
from inkplex_data.torch_settings import exact_convolutions, torch_threads

if TYPE_CHECKING:
    import torch

Dtype = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class ModelIdentity:
    """Two models with equal identities give the same states, up to rounding between kinds of processor.

    `id` is the hub id, the folder's name or `small:SEED`; `sha256` covers every weight that states depend
    on, by name, dtype, shape and bytes. `untrained` marks random weights, whose states mean nothing.
    """

    id: str
    sha256: str
    untrained: bool
    width: int
    dtype: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `store.json`."""
        return asdict(self)


class Inkling:
    """The text model of an Inkling and, where its checkpoint has one, the front end for dMel audio.

    `text` is a transformers `InklingTextModel`, `audio` an `InklingAudioModel` or None; `device` takes the tokens.
    """

    def __init__(self, model_id: str, loaded: LoadedWeights, *, untrained: bool, dtype: str) -> None:
        self.text = loaded.text.eval()
        self.audio: Any = None if loaded.audio is None else loaded.audio.eval()
        self.device = execution_device(self.text.embed_tokens)
        self.width = int(self.text.config.hidden_size)
        self.vocabulary = int(self.text.config.vocab_size)
        self._taps = RowTaps(self.text)
        self._loaded = loaded
        self.identity = ModelIdentity(model_id, weights_sha256(loaded), untrained, self.width, dtype)

    @property
    def rank(self) -> int:
        """The number of this process among those that share the model; the first one writes."""
        return int(os.environ["RANK"]) if self._loaded.processes > 1 else 0

    def chunk_rule(self) -> ChunkRule:
        """The chunks that the devices have room for; the small model's are always the same."""
        if self.identity.untrained:
            return ChunkRule(512)
        return ChunkRule.fitting(room_bytes(self.text), int(self.text.config.num_attention_heads))

    def new_cache(self) -> Any:
        """An empty cache. Without the configuration it would have no place for the short convolutions' states."""
        from transformers import DynamicCache

        return DynamicCache(config=self.text.config)

    def rows(
        self,
        ids: NDArray[np.int32],
        cache: Any,
        *,
        audio_at: NDArray[np.bool_] | None = None,
        audio: NDArray[np.uint8] | None = None,
    ) -> torch.Tensor:
        """Rows 28, 34 and 42 of the next n tokens: [n, 3, D] in the model's dtype, on the host, until the next pass.

        `cache` holds the context before them and takes them in; without one they are a context of their own,
        computed as by a plain forward pass, which rounds otherwise than one into an empty cache. Where `audio_at` [n] is true the embedding
        is that of the next row of `audio` [k, 80] (dMel bins) instead of the id's.
        """
        import torch

        # Parts of weights in several processes are tensors that inference mode does not know (torch 2.14).
        quietly = torch.inference_mode if self._loaded.processes == 1 else torch.no_grad
        with quietly(), self._settings():
            tokens = torch.from_numpy(ids.astype(np.int64)).to(self.device)[None]
            inputs: dict[str, Any] = {"input_ids": tokens}
            if self.audio is not None and audio_at is not None and audio is not None and audio_at.any():
                embedded = self.text.embed_tokens(tokens.masked_fill(self._tensor(audio_at), 0))
                heard = self.audio(self._tensor(audio).long()).last_hidden_state
                embedded[0, self._tensor(audio_at)] = heard.to(embedded.dtype)
                inputs = {"inputs_embeds": embedded}
            with self._taps.taking(len(ids), self.width, self.text.dtype) as rows:
                self.text(**inputs, cache=cache, use_cache=cache is not None)
            return rows

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        # One thread: how a sum is split over threads shows in its last bits, and calls run side by side anyway.
        with torch_threads(1), exact_convolutions(self.device), quiet_transformers():
            yield


def load_inkling(spec: str, *, dtype: Dtype = "auto", device: str = "auto") -> Inkling:
    """Load an Inkling.

    `spec` is a hub id, a folder with a checkpoint of `InklingForCausalLM` or
    `InklingForConditionalGeneration`, or `small:SEED`, an untrained small model with all 42 blocks, marked
    as such. `dtype` auto is bfloat16 for a checkpoint, float32 for the small model; quantised weights stay as they are.
    `device` as `device_map` has it; under `torchrun` each process takes its share of every block.

    Raises ConfigError where the spec, the device or a quantised checkpoint's library is not to be had, CheckpointError
    for a checkpoint that lacks weights, MissingLibraryError without torch, transformers or, for a device map, accelerate.
    """
    torch = require("torch", extra="memory", needed_for="capturing hidden states")
    require("transformers", extra="memory", needed_for="capturing hidden states")
    seed = small_seed(spec)
    with quiet_transformers():
        if seed is not None:
            arithmetic = "float32" if dtype == "auto" else dtype
            place = one_device(device)
            text, audio = build_small(seed, getattr(torch, arithmetic))
            loaded = LoadedWeights(text.to(place), audio.to(place))
            return Inkling(f"small:{seed}", loaded, untrained=True, dtype=arithmetic)
        arithmetic = "bfloat16" if dtype == "auto" else dtype
        checkpoint = find_checkpoint(spec)
        loaded = load_weights(checkpoint, getattr(torch, arithmetic), device)
        named = arithmetic if checkpoint.quantised is None else f"{arithmetic}, {checkpoint.quantised}"
        return Inkling(checkpoint.id, loaded, untrained=False, dtype=named)
