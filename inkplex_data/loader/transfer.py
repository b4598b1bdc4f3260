"""Batches to the device: one copy each, on a stream of its own, while the step before computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inkplex_data.loader.batch import Batch

if TYPE_CHECKING:
    import torch


class DeviceCopier:
    """Copies batches to one device. `copy` runs on a loader's thread, `hand_out` on its user's."""

    def __init__(self, device: torch.device) -> None:
        import torch

        self.device = device
        self._cuda: Any = torch.cuda
        self._stream = self._cuda.Stream(device) if device.type == "cuda" else None

    def copy(self, batch: Batch) -> Batch:
        """The batch on the device; returns when it is there, so that its host memory may be used again."""
        if self._stream is None:
            return batch.on(batch.block().to(self.device))
        with self._cuda.device(self.device), self._cuda.stream(self._stream):
            block = batch.block().to(self.device, non_blocking=True)
            done = self._cuda.Event(blocking=True)
            done.record(self._stream)
        done.synchronize()
        return batch.on(block)

    def hand_out(self, batch: Batch) -> Batch:
        """Tell the allocator that the user's stream reads memory that was made on the copying one."""
        if self._stream is not None:
            batch.block().record_stream(self._cuda.current_stream(self.device))
        return batch
