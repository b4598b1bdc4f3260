"""Samples that a run cannot use: damaged bytes, a loss that is not finite, no memory left on the device.

Their calls are named, left out from then on, and recorded in every checkpoint. An update with such a sample is made
anew without it, so it is the update that it would have been, had the call not been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from inkplex_data.errors import InkplexError
from inkplex_data.plural import counted

if TYPE_CHECKING:
    from inkplex_data.loader import Batch
    from inkplex_data.loader.damaged_sample import DamagedSampleError

_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
"""How a CPU's allocator and other libraries say it; torch's own devices raise an error of its own."""


class BadSampleError(InkplexError, ArithmeticError):
    """More calls were left out than the recipe allows; the state before this update is saved."""


@dataclass(frozen=True)
class BadSample:
    """One window of one call, and what became of it on a rank.

    window: frames [first, stop) of the call. peak_bytes: most that the device held at a time, None where unknown.
    """

    call_id: str
    store: int
    window: tuple[int, int]
    rank: int
    what: str
    peak_bytes: int | None = None

    def text(self) -> str:
        """The sample for a person."""
        peak = "" if self.peak_bytes is None else f", with a peak of {self.peak_bytes / 2**30:.2f} GiB"
        first, stop = self.window
        return f"call {self.call_id!r}, frames {first:,} to {stop:,}, on rank {self.rank}: {self.what}{peak}"

    def row(self, update: int) -> dict[str, Any]:
        """The same as JSON values; `update` is the one that goes on without it."""
        return {**asdict(self), "window": list(self.window), "update": update}


class BadSamples(Exception):
    """An update cannot be made with these samples; nothing has changed. Every rank raises it with the same ones."""

    def __init__(self, found: Sequence[BadSample], *, alone: bool) -> None:
        """alone: several windows went through the device together, so the update must be tried one at a time."""
        super().__init__("; ".join(sample.text() for sample in found))
        self.found, self.alone = list(found), alone


def refused(found: Sequence[BadSample], *, allowed: int, run: str) -> BadSampleError:
    """The end of a run that would leave out more calls than `allowed`."""
    names = ", ".join(sample.call_id for sample in found)
    lines = "\n  - ".join(sample.text() for sample in found)
    return BadSampleError(
        f"{counted(len(found), 'sample')} cannot be used, and data.bad_calls allows {counted(allowed, 'call')} to be left "
        f"out:\n  - {lines}",
        where=run,
        next_step=f"Resume with --set data.exclude=[{names}], or with a larger data.bad_calls. Where no loss is finite, "
        "start a run in another folder with a lower optimizer.max_learning_rate.",
    )


def out_of_step(found: Sequence[BadSample]) -> BadSampleError:
    """The end of a run whose model is divided: the other ranks are in the middle of a block of this one's."""
    return BadSampleError(
        "a rank of a divided model cannot go on alone:\n  - "
        + "\n  - ".join(sample.text() for sample in found),
        next_step=f"Resume with --set data.exclude=[{', '.join(sample.call_id for sample in found)}], or with shorter "
        "windows (data.duration_s, data.forward_frames).",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a forward or backward failed for lack of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)


def of_batch(batch: Batch, rank: int, what: str, peak_bytes: int | None = None) -> BadSample:
    """A sample that was read and could not be used."""
    return BadSample(batch.call_id, batch.store, batch.window, rank, what, peak_bytes)


def of_damage(error: DamagedSampleError, rank: int) -> BadSample:
    """A sample that could not be read."""
    return BadSample(error.call_id, error.store, error.window, rank, f"damaged: {error.what}")


def peak_bytes(device: torch.device) -> int | None:
    """Most bytes that torch held on a GPU since the last call of this; None on a CPU."""
    if device.type != "cuda":
        return None
    peak = int(torch.cuda.max_memory_allocated(device))
    torch.cuda.reset_peak_memory_stats(device)
    return peak
