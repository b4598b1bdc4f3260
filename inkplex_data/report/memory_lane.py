"""A call's memory in numbers: its versions by bucket, and the chunks in which a reader computes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from inkplex_data.memory.plan import plan_chunks
from inkplex_data.memory.versions import AGE_BUCKETS, RECENCY_BUCKETS
from inkplex_data.plural import counted
from inkplex_data.report.clock_delays import Delay, clock_delays
from inkplex_data.store.call import Call, ComposedCall

_SHOWN_CHUNKS = 20


@dataclass(frozen=True)
class MemoryView:
    """`recency` and `age` count versions by bucket; `live` int64 [steps] counts the tokens that each step sees.

    `chunks` int64 [n, 3] holds each chunk's first step, end step and union size. `delays`: between the tokens' clocks.
    """

    steps: int
    tokens: int
    versions: int
    whole: int
    recency: tuple[int, ...]
    age: tuple[int, ...]
    live: np.ndarray
    chunks: np.ndarray
    delays: tuple[Delay, ...]

    def as_json(self) -> dict[str, Any]:
        live = self.live.tolist()
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "versions": self.versions,
            "whole": self.whole,
            "recency": list(self.recency),
            "age": list(self.age),
            "live_first": live[0] if live else 0,
            "live_last": live[-1] if live else 0,
            "live_most": max(live, default=0),
            "chunks": self.chunks.tolist(),
            "delays": [asdict(delay) for delay in self.delays],
        }

    def text(self) -> str:
        facts = self.as_json()
        lines = [
            f"{self.versions:,} versions of {self.tokens:,} tokens over {self.steps:,} steps, {self.whole:,} of them whole",
            f"live tokens: {facts['live_first']:,} at the first step, {facts['live_last']:,} at the last, "
            f"{facts['live_most']:,} at most",
            f"by recency: {_buckets(self.recency)}",
            f"by age:     {_buckets(self.age)}",
            *(f"{delay}, {counted(delay.tokens, 'token')}" for delay in self.delays),
            f"{counted(len(self.chunks), 'chunk')}:",
        ]
        lines += [
            f"  steps {first:,} to {end:,}: {union:,} versions"
            for first, end, union in self.chunks[:_SHOWN_CHUNKS]
        ]
        if len(self.chunks) > _SHOWN_CHUNKS:
            lines.append(f"  and {len(self.chunks) - _SHOWN_CHUNKS} more")
        return "\n".join(lines)


def memory_view(call: Call | ComposedCall, *, limit: int) -> MemoryView:
    """Count a call's versions and plan its chunks with unions of at most `limit`."""
    versions, steps = call.versions, call.frames
    start, end = versions["start"].to_numpy(), versions["end"].to_numpy()
    change = np.zeros(steps + 1, np.int64)
    np.add.at(change, start, 1)
    np.subtract.at(change, end, 1)
    return MemoryView(
        steps=steps,
        tokens=call.tokens.height,
        versions=versions.height,
        whole=int(versions["whole"].sum()),
        recency=_counts(versions["recency"], RECENCY_BUCKETS),
        age=_counts(versions["age"], AGE_BUCKETS),
        live=np.cumsum(change)[:steps],
        chunks=plan_chunks(start, end, steps=steps, limit=limit),
        delays=tuple(clock_delays(call.tokens)),
    )


def _counts(buckets: pl.Series, many: int) -> tuple[int, ...]:
    return tuple(np.bincount(buckets.to_numpy(), minlength=many).tolist())


def _buckets(counts: tuple[int, ...]) -> str:
    found = [f"{bucket}: {count:,}" for bucket, count in enumerate(counts) if count]
    return ", ".join(found) or "none"
