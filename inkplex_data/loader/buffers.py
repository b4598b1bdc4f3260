"""Host memory that is read into, used again and again: a fresh gigabyte costs more than reading it.

A block goes back by itself when the last tensor on it is gone, so nobody has to say when a batch is done.
With `pinned`, blocks are page-locked, and copies from them to the device run while both sides work on.
"""

from __future__ import annotations

import weakref
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

GRAIN = 2**22
"""Block sizes are multiples of this, so that calls of about the same length share blocks."""


class BufferPool:
    """Blocks of host memory. Safe between threads; tensors may outlive the pool."""

    def __init__(self, keep_bytes: int, *, pinned: bool = False) -> None:
        """keep_bytes: blocks are kept for later while all of them, those in use too, hold no more than this
        and twice the largest: one that its user still has, and the next that is on its way there."""
        self._keep_bytes = keep_bytes
        self._largest = 0
        self._pinned = pinned
        self._lock = Lock()
        self._free: list[np.ndarray] = []
        # Tensors die wherever the garbage collector runs, also inside this lock: returning takes none.
        self._returned: deque[np.ndarray] = deque()
        self.allocated_bytes = 0
        """Of all blocks, in use or kept."""

    def tensor(self, size_bytes: int) -> torch.Tensor:
        """A uint8 tensor [size_bytes] with any content, on a block that comes back once it is unused."""
        import torch

        block = self._take(size_bytes)
        view = block[:size_bytes]
        # torch keeps `view` for as long as any tensor shares its storage.
        weakref.finalize(view, self._returned.append, block).atexit = False
        return torch.from_numpy(view)

    def _take(self, size_bytes: int) -> np.ndarray:
        with self._lock:
            while self._returned:
                self._free.append(self._returned.popleft())
            rounded = -(-max(size_bytes, 1) // GRAIN) * GRAIN
            self._largest = max(self._largest, rounded)
            keep_bytes = self._keep_bytes + 2 * self._largest
            fitting = [block for block in self._free if len(block) >= size_bytes]
            block = min(fitting, key=len, default=None)
            if block is not None:
                self._remove(block)
            growth = rounded if block is None else 0
            for other in sorted(self._free, key=len, reverse=True):
                if self.allocated_bytes + growth <= keep_bytes:
                    break
                self._remove(other)
                self.allocated_bytes -= len(other)
            self.allocated_bytes += growth
        return _allocate(rounded, pinned=self._pinned) if block is None else block

    def _remove(self, block: np.ndarray) -> None:
        self._free = [other for other in self._free if other is not block]


def _allocate(size_bytes: int, *, pinned: bool) -> np.ndarray:
    block = np.empty(size_bytes, np.uint8)
    if pinned:
        # torch's own pinned allocator would round up to a power of two.
        import torch

        cuda: Any = torch.cuda
        cudart, address = cuda.cudart(), block.ctypes.data
        cuda.check_error(int(cudart.cudaHostRegister(address, size_bytes, 0)))
        # An array's weak references are cleared before its memory is freed.
        weakref.finalize(block, cudart.cudaHostUnregister, address).atexit = False
    return block
