"""The streams along the frames of a call: one line each, from which everything else about them is derived.

That is the arrays of a shard and their checks (`store/shard.py`, `store/verify/shard_content.py`), the streams of a call with
and without its prefix (`store/call.py`), the columns of `frames()` (`store/lazy.py`), the size of a shard
(`pipeline/planning/sharding.py`), the tensors of a batch (`loader/`) and which of their rows the loss mask governs.
A new stream is a line here and a value in the builder's `CallPart`.

Stored, frames come first ([F] or [F, width]), so that a chunk is a stretch of time. In a call, a prefix and a batch they
come last ([F] or [width, F]), as a model takes them. Every stream is cut to a window in the same way, by its frames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from inkplex_data.errors import UsageError
from inkplex_data.grid import CODEBOOKS, LEVEL_FLOOR_DB, MASK_AGENT, MASK_CALLER, MASK_TEXT

Frames = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """A column of `Store.frames()`: rows [first, stop) of a stream, all by default, or the pieces that its ids spell."""

    name: str
    first: int = 0
    stop: int | None = None
    spelled: bool = False


@dataclass(frozen=True)
class FrameStream:
    """One stream. `dtype` is numpy's name of it."""

    name: str
    """Of its array in a shard."""
    dtype: str
    width: int | None = None
    """Values a frame; None for one, without an axis of its own."""
    fill: int = 0
    """What frames hold about which nothing is known: those of a prefix that has no such stream, and all of a call
    whose builder does not give this one."""
    optional: bool = False
    """A builder need not give it."""
    in_prefix: bool = False
    """Prefixes store it too, and composition takes it from there."""
    columns: tuple[Column, ...] = ()
    """How `frames()` shows it."""
    tensor: tuple[str, str] | None = None
    """(name, dtype) of the batch tensor that the loader reads it into; streams that name one tensor lie in it one
    below the other, in the order of the table. None: the loader leaves it alone."""
    mask_bits: tuple[int, ...] = ()
    """For each row, the bit of `mask` without which it carries no loss; empty where it never carries any."""

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of one frame: () or (width,)."""
        return () if self.width is None else (self.width,)

    def unknown(self, frames: int) -> Frames:
        """`frames` frames of `fill`, as they are stored: [frames] or [frames, width]."""
        return np.full((frames, *self.frame_shape), self.fill, self.dtype)


_SIDES: Final = (Column("agent", stop=CODEBOOKS), Column("caller", first=CODEBOOKS))
_BITS: Final = (MASK_AGENT,) * CODEBOOKS + (MASK_CALLER,) * CODEBOOKS
_IDS: Final = ("codes", "int64")
"""Row 0 of the model's ids is text, rows 1 to 16 are codes; embeddings take int64."""

STREAMS: tuple[FrameStream, ...] = (
    # What the text stream does in each frame, `grid.TAG_*`.
    FrameStream("role", "uint8", in_prefix=True, columns=(Column("role"),), tensor=("roles", "uint8")),
    # Text ids.
    FrameStream(
        "text", "int32", in_prefix=True, tensor=_IDS, mask_bits=(MASK_TEXT,),
        columns=(Column("text_id"), Column("piece", spelled=True)),
    ),
    # Agent q0–7, caller q0–7.
    FrameStream("codes", "uint16", 2 * CODEBOOKS, in_prefix=True, columns=_SIDES, tensor=_IDS, mask_bits=_BITS),
    # Bits of the modalities that may carry loss, and of text that is no input, `grid.MASK_*`: none over a prefix.
    FrameStream("mask", "uint8", columns=(Column("mask"),), tensor=("mask", "uint8")),
    # RMS of agent and caller in dBFS.
    FrameStream("level", "int8", 2, fill=LEVEL_FLOOR_DB, optional=True, columns=(Column("level"),)),
)  # fmt: skip


def find(name: str) -> FrameStream:
    """The stream of that name. Raises UsageError where there is none."""
    for stream in STREAMS:
        if stream.name == name:
            return stream
    names = ", ".join(stream.name for stream in STREAMS)
    raise UsageError(f"frames have no stream {name!r}", next_step=f"The streams are {names}.")


def stored_in(kind: str) -> list[FrameStream]:
    """The streams that shards of `kind`, `calls` or `prefixes`, have; none for other kinds."""
    return [stream for stream in STREAMS if kind == "calls" or (kind == "prefixes" and stream.in_prefix)]


def array_layout(kind: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The arrays of such a shard: name → (dtype, shape of one frame)."""
    return {stream.name: (stream.dtype, stream.frame_shape) for stream in stored_in(kind)}


def frame_bytes() -> int:
    """Bytes of one frame of a call, uncompressed: 40."""
    return sum(np.dtype(stream.dtype).itemsize * (stream.width or 1) for stream in STREAMS)


class OnFrames:
    """What has streams: a call, a prefix, or both together. F frames."""

    def stream(self, name: str) -> Frames:
        """A stream by its name: [F] or [width, F], read on first use. Raises UsageError for a name not in the table."""
        kept: dict[str, Frames] = self.__dict__.setdefault("_streams", {})
        if name not in kept:
            kept[name] = self._read_stream(find(name))
        return kept[name]

    def _read_stream(self, stream: FrameStream) -> Frames:
        raise NotImplementedError

    @property
    def codes(self) -> Frames:
        """uint16 [16, F]: agent q0–7, caller q0–7."""
        return self.stream("codes")

    @property
    def text(self) -> Frames:
        """int32 [F]: the agent's text stream."""
        return self.stream("text")

    @property
    def role(self) -> Frames:
        """uint8 [F]: what each text id is (`grid.TAG_*`)."""
        return self.stream("role")

    @property
    def mask(self) -> Frames:
        """uint8 [F]: bits of the modalities that may carry loss (`grid.MASK_*`), none over a prefix."""
        return self.stream("mask")

    @property
    def level(self) -> Frames:
        """int8 [2, F]: RMS level of agent and caller in dBFS, for timelines."""
        return self.stream("level")


@dataclass(frozen=True)
class BatchTensor:
    """A tensor of a batch: [T], or [rows, T] where a stream has a width or several lie one below the other.

    Text (one row) and codes (sixteen) share `codes`, int64 [17, T]: `fill` writes text into row 0 and codes into
    rows 1 to 16.
    """

    name: str
    dtype: str
    streams: tuple[FrameStream, ...]

    @property
    def rows(self) -> int | None:
        """Rows, None for [T]."""
        if len(self.streams) == 1:
            return self.streams[0].width
        return sum(stream.width or 1 for stream in self.streams)

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        return np.dtype(self.dtype).itemsize * (self.rows or 1)

    def shape(self, frames: int) -> tuple[int, ...]:
        """Its shape for T = `frames`."""
        return (frames,) if self.rows is None else (self.rows, frames)

    def fill(self, out: Frames, prefix: OnFrames, read: Callable[[str], Frames]) -> None:
        """Write a prefix of P frames and the window of F frames behind it into `out`, of `shape`(P + F).

        `read` gives a stream's frames in the window as they are stored, [F] or [F, width].
        """
        at, rows = 0, self.rows
        for stream in self.streams:
            part = out
            if rows is not None:
                part = out[at] if stream.width is None else out[at : at + stream.width]
            at += stream.width or 1
            before = prefix.stream(stream.name)
            split = before.shape[-1]
            part[..., :split], part[..., split:] = before, read(stream.name).T


def batch_tensors() -> tuple[BatchTensor, ...]:
    """The tensors of a batch that streams fill, in the order of the table."""
    by_tensor: dict[tuple[str, str], list[FrameStream]] = {}
    for stream in STREAMS:
        if stream.tensor is not None:
            by_tensor.setdefault(stream.tensor, []).append(stream)
    return tuple(BatchTensor(name, dtype, tuple(streams)) for (name, dtype), streams in by_tensor.items())


def mask_bits(tensor: str) -> list[int]:
    """For each row of a batch tensor, the bit of `mask` without which it carries no loss."""
    return [
        bit for stream in STREAMS if stream.tensor and stream.tensor[0] == tensor for bit in stream.mask_bits
    ]
