"""Inkling from transformers, as far as hidden rows need it: loaded, named by its weights, run chunk by chunk.

Rows (seeds/000, "Current sequence memory", sections 1 and 3): 28 and 34 are the completed outputs of the
zero-based blocks of those numbers, 42 is the output of the final RMSNorm. The readout is never computed.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.libraries import require
from inkplex_data.memory.capture.inkling_small import build_small
from inkplex_data.memory.capture.inkling_source import (
    FULL_MODEL,
    InklingCheckpoint,
    find_checkpoint,
    small_seed,
)
from inkplex_data.torch_settings import exact_convolutions, torch_threads

if TYPE_CHECKING:
    import torch

HIDDEN_STATES: Final = (29, 35, 42)
"""Where transformers puts rows 28, 34 and 42: its entry 0 is the embedding, and its last one is normalised."""

Dtype = Literal["float32", "bfloat16"]


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

    `text` is a transformers `InklingTextModel`, `audio` an `InklingAudioModel` or None.
    """

    def __init__(self, model_id: str, text: Any, audio: Any, *, untrained: bool, dtype: str) -> None:
        self.text = text.eval()
        self.audio: Any = None if audio is None else audio.eval()
        self.device: torch.device = text.device
        self.width = int(text.config.hidden_size)
        self.vocabulary = int(text.config.vocab_size)
        weights = {f"text.{name}": tensor for name, tensor in text.state_dict().items()}
        if audio is not None:
            weights |= {f"audio.{name}": tensor for name, tensor in audio.state_dict().items()}
        self.identity = ModelIdentity(model_id, weights_sha256(weights), untrained, self.width, dtype)

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
        """Rows 28, 34 and 42 of the next n tokens: [n, 3, D] in the model's dtype, on its device.

        `cache` holds the context before them and takes them in; without one they are a context of their own,
        computed as by a plain forward pass, which rounds otherwise than one into an empty cache. Where `audio_at` [n] is true the embedding
        is that of the next row of `audio` [k, 80] (dMel bins) instead of the id's.
        """
        import torch

        with torch.inference_mode(), self._settings():
            tokens = torch.from_numpy(ids.astype(np.int64)).to(self.device)[None]
            inputs: dict[str, Any] = {"input_ids": tokens}
            if self.audio is not None and audio_at is not None and audio is not None and audio_at.any():
                embedded = self.text.embed_tokens(tokens.masked_fill(self._tensor(audio_at), 0))
                heard = self.audio(self._tensor(audio).long()).last_hidden_state
                embedded[0, self._tensor(audio_at)] = heard.to(embedded.dtype)
                inputs = {"inputs_embeds": embedded}
            found = self.text(
                **inputs, cache=cache, use_cache=cache is not None, output_hidden_states=list(HIDDEN_STATES)
            ).hidden_states
            return torch.stack([found[index][0] for index in HIDDEN_STATES], dim=1)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        # One thread: how a sum is split over threads shows in its last bits, and calls run side by side anyway.
        with torch_threads(1), exact_convolutions(self.device), quiet_transformers():
            yield


def fork_cache(cache: Any) -> Any:
    """A cache that goes its own way from here.

    Keys and values are shared: growing makes new ones and leaves the old alone. The states of the short
    convolutions are overwritten in place, so they are copied.
    """
    import torch

    shared: dict[int, Any] = {}
    for layer in cache.layers:
        for tensor in (layer.keys, layer.values):
            shared[id(tensor)] = tensor
    with torch.inference_mode():
        return copy.deepcopy(cache, shared)


def share_prefix(kept: Any, grown: Any) -> None:
    """Make `kept`, a fork of `grown` from earlier on, use the first keys and values of `grown`.

    So a kept cache costs nothing beside the one that goes on: two copies of a long prefix would double
    the memory. Layers with a window keep their own few.
    """
    for old, new in zip(kept.layers, grown.layers, strict=True):
        if not old.is_sliding:
            tokens = old.get_seq_length()
            old.keys, old.values = new.keys[..., :tokens, :], new.values[..., :tokens, :]


def load_inkling(spec: str, *, dtype: Dtype = "float32", device: str = "auto") -> Inkling:
    """Load an Inkling.

    `spec` is a hub id, a folder with a checkpoint of `InklingForCausalLM` or
    `InklingForConditionalGeneration`, or `small:SEED`, an untrained small model with all 42 blocks, marked
    as such. `device` is a torch device; `auto` takes a GPU where there is one.

    Raises ConfigError where the spec or device is not to be had, CheckpointError for a checkpoint that
    lacks weights, MissingLibraryError without torch or transformers.
    """
    torch = require("torch", extra="memory", needed_for="capturing hidden states")
    require("transformers", extra="memory", needed_for="capturing hidden states")
    place = _device(device)
    seed = small_seed(spec)
    with quiet_transformers():
        if seed is not None:
            text, audio = build_small(seed, getattr(torch, dtype))
            return Inkling(f"small:{seed}", text.to(place), audio.to(place), untrained=True, dtype=dtype)
        checkpoint = find_checkpoint(spec)
        text, audio = _load(checkpoint, getattr(torch, dtype), place)
    return Inkling(checkpoint.id, text, audio, untrained=False, dtype=dtype)


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # An allocation finds a GPU that is named but not there.
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"no device {name!r}: {reason}", where="memory.capture.device", next_step="Use auto or cpu."
        ) from error


def _load(checkpoint: InklingCheckpoint, dtype: Any, device: Any) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import InklingModel, InklingTextModel

    whole = checkpoint.model_type == FULL_MODEL
    kind = InklingModel if whole else InklingTextModel
    try:
        # The dtype is given here, not cast later: the short convolutions stay float32 only so. The base
        # model has no readout, which is the largest matrix and would stay unused.
        model, report = kind.from_pretrained(
            checkpoint.folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        reason = str(error).strip().splitlines()
        raise CheckpointError(
            f"the checkpoint cannot be loaded: {reason[0] if reason else type(error).__name__}",
            where=checkpoint.id,
            next_step="Download it again; an interrupted download is the usual cause.",
        ) from error
    lacking = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    prefix = "language_model." if whole else ""
    needed = [name for name in lacking if prefix in name]
    if needed:
        raise CheckpointError(
            f"{len(needed)} weights are missing or of another shape, among them {needed[0]}",
            where=checkpoint.id,
            next_step="Download it again; states of random weights would mean nothing.",
        )
    model = model.to(device)
    if not whole:
        return model, None
    hears = not any("audio_tower." in name for name in lacking)
    return model.language_model, model.audio_tower if hears else None


def weights_sha256(weights: Mapping[str, torch.Tensor]) -> str:
    """Hex digest over every tensor in sorted name order: name, dtype, shape, bytes."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without progress bars and notes of transformers, which would run through the build's own display."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
