"""Caches of Inkling: forked for requests that go on from one place, and shared where contexts begin alike."""

from __future__ import annotations

import copy
from typing import Any


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
