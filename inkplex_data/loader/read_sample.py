"""One sample from the store into one block of host memory: states by direct, verified reads, the rest beside them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import CODEBOOKS, NO_INPUT, PLAN_LIMIT
from inkplex_data.loader.batch import TARGETS, Batch, Layout, Targets
from inkplex_data.loader.buffers import BufferPool
from inkplex_data.loader.parallel import ParallelReader
from inkplex_data.loader.samples import Memory, Sample
from inkplex_data.loader.window_memory import WindowMemory
from inkplex_data.memory.plan import plan_chunks
from inkplex_data.store.call import Call, StoredPrefix
from inkplex_data.store.frame_streams import BatchTensor, batch_tensors
from inkplex_data.store.reader import Store

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class SampleReader:
    """Reads samples of a store. Safe between threads; most of its time is spent without Python's lock."""

    store: Store
    memory: Memory
    pool: BufferPool
    parallel: ParallelReader
    plan_limit: int = PLAN_LIMIT
    frame_tensors: tuple[BatchTensor, ...] = field(default_factory=batch_tensors)

    def prepare(self, sample: Sample) -> Prepared:
        """What the sample's tables say: little, but it takes time. Raises StoreCorruptError."""
        call, prefix = self._call(sample)
        memory = WindowMemory.of(self.store, call, sample)
        steps = sample.stop - sample.first + sample.prefix_frames
        chunks = plan_chunks(memory.versions.start, memory.versions.end, steps=steps, limit=self.plan_limit)
        return Prepared(sample, call, prefix, memory, chunks)

    def read(self, prepared: Prepared, *, epoch: int, index: int) -> Batch:
        """The sample as tensors on the CPU. Raises StoreCorruptError for damaged or missing bytes."""
        sample, call, prefix, memory = prepared.sample, prepared.call, prepared.prefix, prepared.memory
        steps = sample.stop - sample.first + sample.prefix_frames
        tokens, versions = memory.tokens, memory.versions
        frame_shapes = {tensor.name: (tensor.dtype, tensor.shape(steps)) for tensor in self.frame_tensors}
        parts: dict[str, tuple[str, tuple[int, ...]]] = {}
        if memory.states is not None:
            parts["states"] = ("bfloat16", (tokens, *memory.states.shape[1:]))
        parts |= {
            **frame_shapes,
            "kind": ("uint8", (tokens,)),
            "piece_offsets": ("int64", (tokens + 1,)),
            "piece_ids": ("int32", (len(memory.piece_ids),)),
            **{name: (str(column.dtype), column.shape) for name, column in vars(versions).items()},
        }
        layout = Layout(parts)
        block = self.pool.tensor(layout.size_bytes)
        tensors = layout.tensors(block)
        first = memory.state_row + memory.first_token
        with (
            nullcontext()
            if memory.states is None
            else self.parallel.reading(memory.states, first, first + tokens, tensors["states"])
        ):
            along = {name: tensors.pop(name) for name in frame_shapes}
            self._fill(along, sample, call, prefix)
            for name in ("kind", "piece_offsets", "piece_ids"):
                tensors[name].numpy()[:] = getattr(memory, name)
            for name, column in vars(versions).items():
                tensors[name].numpy()[:] = column
        starts_at_us, response = call.recording_starts_at_us, call.row["response_start_frame"]
        here = response is not None and sample.first <= response < sample.stop
        return Batch(
            streams=along,
            **{"states": None, **tensors},  # type: ignore[arg-type]
            chunks=prepared.chunks,
            call_id=call.call_id,
            family=str(call.row["family"]),
            split=call.split,
            recording_id=None if self.memory == "none" else call.recording_id,
            prefix_id=sample.row["prefix_id"],
            prefix_frames=sample.prefix_frames,
            window=(sample.first, sample.stop),
            recording_starts_at_us=None if starts_at_us is None else starts_at_us + sample.first * FRAME_US,
            response_start=response - sample.first + sample.prefix_frames if here else None,
            first_token=memory.first_token,
            store=sample.store,
            epoch=epoch,
            index=index,
            bytes_=layout.size_bytes,
        )

    def targets(self, sample: Sample) -> Targets:
        """Only what the objective looks at: a few hundred kilobytes."""
        import torch

        call, prefix = self._call(sample)
        steps = sample.stop - sample.first + sample.prefix_frames
        along = {
            tensor.name: torch.empty(tensor.shape(steps), dtype=getattr(torch, tensor.dtype))
            for tensor in self.frame_tensors
            if tensor.name in TARGETS
        }
        self._fill(along, sample, call, prefix)
        return Targets(along, sample.prefix_frames)

    def _call(self, sample: Sample) -> tuple[Call, StoredPrefix]:
        row = sample.row
        if self.memory == "none":
            row = {**row, "recording_id": None}
        call = Call(self.store, row)
        if self.memory == "wrong" and row["memory_of"] is not None:
            call = call.wrong_memory()
        prefix_id = row["prefix_id"]
        return call, StoredPrefix.none() if prefix_id is None else self.store.prefix_by_id(prefix_id)

    def _fill(
        self, out: Mapping[str, torch.Tensor], sample: Sample, call: Call, prefix: StoredPrefix
    ) -> None:
        """Prefix and window side by side, in all tensors along the frames that `out` has."""
        shard, offset = call.row["shard"], call.row["frame_offset"]

        def read(stream: str) -> NDArray[Any]:
            array = self.store.array("calls", shard, stream)
            return array.read(offset + sample.first, offset + sample.stop)

        for tensor in self.frame_tensors:
            if tensor.name in out:
                tensor.fill(out[tensor.name].numpy(), prefix, read)
        if self.store.is_single_stream:
            # Codes of silence would say that somebody listens; without input nine streams are left.
            out["codes"][1 + CODEBOOKS :] = NO_INPUT


@dataclass(frozen=True)
class Prepared:
    """A sample of which everything but states and frames is read."""

    sample: Sample
    call: Call
    prefix: StoredPrefix
    memory: WindowMemory
    chunks: NDArray[np.int64]
