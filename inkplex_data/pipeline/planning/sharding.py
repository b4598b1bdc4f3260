"""How large a call or recording is in the store, and where a shard ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inkplex_data.store.frame_streams import frame_bytes

WORD_BYTES = 64
VERSIONS_PER_TOKEN = 18
VERSION_BYTES = 8
TOKEN_BYTES = 48


@dataclass(frozen=True)
class Sized:
    """Something to put in a shard, with an estimate of its stored size."""

    key: str
    size_bytes: int


def call_bytes(*, frames: int, words: int, tokens: int) -> int:
    """Estimated stored size of a call. `tokens` are those of its recording (0 without memory)."""
    return frames * frame_bytes() + words * WORD_BYTES + tokens * VERSIONS_PER_TOKEN * VERSION_BYTES


def recording_bytes(*, tokens: int, state_width: int, state_rows: int) -> int:
    """Stored size of a recording: its states dominate."""
    return tokens * (state_rows * state_width * 2 + TOKEN_BYTES)


def plan_shards(items: Iterable[Sized], limit_bytes: int) -> list[list[str]]:
    """Cut items, in their order, into shards of at most `limit_bytes`; a larger item gets its own shard."""
    shards: list[list[str]] = []
    filled_bytes = 0
    for item in items:
        if not shards or (shards[-1] and filled_bytes + item.size_bytes > limit_bytes):
            shards.append([])
            filled_bytes = 0
        shards[-1].append(item.key)
        filled_bytes += item.size_bytes
    return shards
