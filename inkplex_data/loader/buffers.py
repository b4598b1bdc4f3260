"""Host memory that is read into, used again and again: a fresh gigabyte costs more than reading it.

A block goes back by itself when the last tensor on it is gone, so nobody has to say when a batch is done.
For a CUDA device blocks are page-locked, so that copies to it run while both sides work on.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

_PORTABLE = 1
"""cudaHostRegisterPortable."""

GRAIN = 2**16
"""The smallest block. Larger ones come in eight sizes for each power of two, so that calls of about the same
length share blocks."""

ROOMY = 1.5
"""A block may be so much larger than what it is used for. Without such a limit a few hundred small samples could
hold the large blocks of earlier ones, and what is read ahead would be bounded in tensors only, not in memory."""


class BufferPool:
    """Blocks of host memory. Safe between threads; tensors may outlive the pool."""

    def __init__(self, keep_bytes: int, device: torch.device | None = None) -> None:
        """keep_bytes: of what is read ahead, at least one block. Blocks are kept for later while all of them,
        those in use too, hold no more than this and twice the largest: one that its user still has, and the
        next that is on its way there.
        device: the CUDA device for which blocks are page-locked, none by default."""
        self._keep_bytes = keep_bytes
        self._largest = 0
        self._device = device
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

    def clear(self) -> None:
        """Give up all blocks that are not in use."""
        with self._lock:
            self._collect()
            self.allocated_bytes -= sum(map(len, self._free))
            self._free.clear()

    def _collect(self) -> None:
        while self._returned:
            self._free.append(self._returned.popleft())

    def _take(self, size_bytes: int) -> np.ndarray:
        with self._lock:
            self._collect()
            step = max(GRAIN, 1 << max(size_bytes.bit_length() - 4, 0))
            rounded = -(-max(size_bytes, 1) // step) * step
            self._largest = max(self._largest, rounded)
            keep_bytes = max(self._keep_bytes, self._largest) + 2 * self._largest
            fitting = [block for block in self._free if size_bytes <= len(block) <= ROOMY * rounded]
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
        return _allocate(rounded, self._device) if block is None else block

    def _remove(self, block: np.ndarray) -> None:
        self._free = [other for other in self._free if other is not block]


def _allocate(size_bytes: int, device: torch.device | None) -> np.ndarray:
    block = np.empty(size_bytes, np.uint8)
    if device is not None:
        import torch

        cuda: Any = torch.cuda
        cudart, address = cuda.cudart(), block.ctypes.data
        # Without the device a reader's thread would begin to use the first one. torch's own pinned memory
        # comes in powers of two.
        with cuda.device(device):
            failure = int(cudart.cudaHostRegister(address, size_bytes, _PORTABLE))
        if failure:
            log.warning("cannot page-lock %d bytes (CUDA error %d): copies will wait", size_bytes, failure)
        else:
            # An array's weak references are cleared before its memory is freed.
            weakref.finalize(block, cudart.cudaHostUnregister, address).atexit = False
    return block
