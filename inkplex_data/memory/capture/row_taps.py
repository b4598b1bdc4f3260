"""Rows 28, 34 and 42 of a pass, taken where they are computed and copied into one buffer that every pass uses again.

`output_hidden_states` would hold the outputs of all 42 blocks on their devices until the pass ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from inkplex_data.grid import STATE_ROWS

if TYPE_CHECKING:
    import torch


class RowTaps:
    """Hooks on the blocks of the first rows and on the final norm of a transformers `InklingTextModel`.

    Rows are at the blocks' outputs themselves, so it does not matter on which device each block is.
    """

    def __init__(self, text: Any) -> None:
        *blocks, _ = STATE_ROWS
        self._rows: torch.Tensor | None = None
        self._buffer: torch.Tensor | None = None
        self._devices: set[torch.device] = set()
        for place, module in enumerate([*(text.layers[block] for block in blocks), text.norm]):
            module.register_forward_hook(self._hook(place))

    @contextmanager
    def taking(self, tokens: int, width: int, dtype: torch.dtype) -> Iterator[torch.Tensor]:
        """The rows of the pass within: [tokens, 3, width] on the host, filled when the block ends, and the buffer's own:
        they hold until the next pass."""
        import torch

        self._rows = self._reserve(tokens, width, dtype)[:tokens]
        try:
            yield self._rows
            for device in self._devices:
                torch.cuda.synchronize(device)
        finally:
            self._rows = None
            self._devices.clear()

    def _reserve(self, tokens: int, width: int, dtype: torch.dtype) -> torch.Tensor:
        import torch

        shape = (tokens, len(STATE_ROWS), width)
        buffer = self._buffer
        if buffer is None or len(buffer) < tokens or (buffer.shape[1:], buffer.dtype) != (shape[1:], dtype):
            # Only pinned memory is copied into while the device goes on with the next block.
            buffer = torch.empty(shape, dtype=dtype, pin_memory=torch.cuda.is_available())
            self._buffer = buffer
        return buffer

    def _hook(self, place: int) -> Callable[[Any, Any, Any], None]:
        def take(module: Any, inputs: Any, output: Any) -> None:
            rows = self._rows
            if rows is not None:
                rows[:, place].copy_(output.reshape(len(rows), -1), non_blocking=True)
                if output.device.type == "cuda":
                    self._devices.add(output.device)

        return take
