"""What the loader hands out: one window of one call as tensors, and how it lies in one block of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from inkplex_data.grid import MASK_HIDDEN_TEXT, NO_INPUT

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ALIGN: Final = 256
"""Every part of a block begins at a multiple of this, as a device's own allocations do."""

MEMORY_TENSORS: Final = (
    "states", "kind", "piece_offsets", "piece_ids", "row", "start", "end", "recency", "age", "whole",
)  # fmt: skip

TARGETS: Final = ("codes", "roles", "mask")
"""The tensors that the objective looks at."""


class _WithStreams:
    """What has tensors along its T frames, those of `store.frame_streams.batch_tensors`."""

    streams: Mapping[str, Tensor]

    @property
    def codes(self) -> Tensor:
        """int64 [17, T]: text, agent q0–7, caller q0–7, the targets. In a single stream the caller's are no input."""
        return self.streams["codes"]

    @property
    def roles(self) -> Tensor:
        """uint8 [T], `grid.TAG_*`."""
        return self.streams["roles"]

    @property
    def mask(self) -> Tensor:
        """uint8 [T], bits of modalities that may carry loss, and of text that is no input; 0 over the prefix."""
        return self.streams["mask"]

    @property
    def inputs(self) -> Tensor:
        """int64 [17, T]: `codes` as the model gets them, without the text that is a target only."""
        inputs = self.codes.clone()
        inputs[0].masked_fill_((self.mask & MASK_HIDDEN_TEXT) > 0, NO_INPUT)
        return inputs

    @property
    def frames(self) -> int:
        """T, prefix included."""
        return self.codes.shape[1]


@dataclass(frozen=True)
class Targets(_WithStreams):
    """What the objective looks at, on the CPU: `codes`, `roles` and `mask` as a batch has them."""

    streams: Mapping[str, Tensor]
    prefix_frames: int


@dataclass(frozen=True)
class Batch(_WithStreams):
    """One window of one call, prefix included: what one device forward takes. T steps, N tokens, V versions.

    The stored streams are aligned; delays are the model's. Without memory (no recording, one without states,
    or `memory="none"`), `states` is None and N and V are 0.
    """

    streams: Mapping[str, Tensor]
    """`codes`, `roles`, `mask` and whatever else the table of streams has the loader read: [T] or [rows, T]."""
    states: Tensor | None
    """bfloat16 [N, 3, D], tokens `first_token` … `first_token + N − 1` of the recording in layout order:
    the shortest run that holds every token which this window sees."""
    kind: Tensor
    """uint8 [N], index into `grid.KINDS`."""
    piece_offsets: Tensor
    """int64 [N + 1]: the text pieces of token n are `piece_ids[piece_offsets[n]:piece_offsets[n + 1]]`."""
    piece_ids: Tensor
    """int32 [P]."""
    row: Tensor
    """int32 [V], the token of each version, 0 … N − 1."""
    start: Tensor
    """int32 [V]: a version is visible at steps [start, end), of this batch, prefix included."""
    end: Tensor
    recency: Tensor
    """uint8 [V]."""
    age: Tensor
    """uint8 [V]."""
    whole: Tensor
    """bool [V]."""
    chunks: NDArray[np.int64]
    """int64 [chunks, 3], `memory.plan.plan_chunks` of these versions. On the CPU."""

    call_id: str
    family: str
    split: str
    recording_id: str | None
    """Whose memory this is: a partner's with `memory="wrong"`."""
    prefix_id: str | None
    """The stored prefix before the window; None without one."""
    prefix_frames: int
    window: tuple[int, int]
    """Frames [first, stop) of the call that stand behind the prefix."""
    recording_starts_at_us: int | None
    """Session time of step `prefix_frames`: `clock.session_us` holds with it. None without a recording."""
    response_start: int | None
    """Step at which the scripted response starts; None where the window lacks it."""
    first_token: int
    store: int
    """Which of several stores."""
    epoch: int
    index: int
    """Place in the epoch, over all ranks."""
    bytes_: int
    """Of all tensors."""

    @property
    def device(self) -> torch.device:
        return self.codes.device

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name and value of every tensor there is."""
        yield from self.streams.items()
        for name in MEMORY_TENSORS:
            value = getattr(self, name)
            if value is not None:
                yield name, value

    def block(self) -> Tensor:
        """The memory that all tensors share, as uint8."""
        import torch

        storage = self.codes.untyped_storage()
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage)  # type: ignore[call-overload]

    def on(self, block: Tensor) -> Batch:
        """The same batch in another copy of `block()`."""
        moved: dict[str, Any] = {
            name: _part(
                block, int(value.storage_offset()) * value.element_size(), value.dtype, tuple(value.shape)
            )
            for name, value in self.tensors()
        }
        return replace(self, streams={name: moved.pop(name) for name in self.streams}, **moved)


class Layout:
    """Where the parts of a batch lie in its block."""

    def __init__(self, parts: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        """`parts`: name → (torch dtype, shape), in the order in which they lie."""
        import torch

        self.size_bytes = 0
        self._places: dict[str, tuple[int, torch.dtype, tuple[int, ...]]] = {}
        for name, (dtype_name, shape) in parts.items():
            dtype = getattr(torch, dtype_name)
            self._places[name] = (self.size_bytes, dtype, shape)
            size = math.prod(shape) * dtype.itemsize
            self.size_bytes += -(-size // ALIGN) * ALIGN

    def tensors(self, block: Tensor) -> dict[str, Tensor]:
        """Views of `block`, a uint8 tensor of `size_bytes`."""
        return {name: _part(block, *place) for name, place in self._places.items()}


def _part(block: Tensor, at: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return block[at : at + size].view(dtype).view(shape)
