"""Causal offline replay of a call: forced until before its scripted response, then free.

Prefix and opening are forced as training forces them. From the first free frame the model hears the caller's
recorded codes, and silence once they end; its own text and voice become its history, and memory grows with
each frame's session time (seeds/000, "Current sequence memory", section 12).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.grid import CODEBOOKS, TAG_EPAD, TAG_FIRST, WINDOW
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.call import Call
from inkplex_data.trainer.memory.connector import CallMemory, MemoryReaders
from inkplex_data.trainer.memory.streaming_memory import LiveMemory
from inkplex_data.trainer.memory.text_features import text_features
from inkplex_data.trainer.model.cache import RingKind
from inkplex_data.trainer.model.generator import StreamingGenerator
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.sampling import Sampling

RESPONSE_SECONDS = 20.0


@dataclass(frozen=True)
class ReplayOptions:
    """seconds: the free window, the same for baseline and trained. seed: of the draws, the same for both.

    cue: whether the end-of-padding frame before the response is `free`, so that the model itself decides when
    to speak, or `forced`. ring: as in `StreamingGenerator`.
    """

    seconds: float = RESPONSE_SECONDS
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    cue: Literal["free", "forced"] = "free"
    ring: RingKind = "released"

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3_600:
            raise UsageError(
                f"a response window must last more than 0 seconds and at most an hour, got {self.seconds}"
            )

    @property
    def frames(self) -> int:
        """Free frames."""
        return max(1, int(self.seconds * FRAME_RATE_HZ))

    def seed_of(self, call_id: str) -> int:
        """The seed of one call: it does not depend on which other calls are generated."""
        digest = hashlib.sha256(f"{self.seed}\0{call_id}".encode()).digest()
        return int.from_bytes(digest[:7], "little")


@dataclass(frozen=True)
class ReplayPlan:
    """The call's frames [first, free) are forced behind the prefix, [free, stop) are generated.

    steps: model steps that this takes, prefix and the largest delay included.
    """

    prefix_frames: int
    first: int
    free: int
    stop: int
    delay: int

    @property
    def steps(self) -> int:
        return self.prefix_frames + self.stop - self.first + self.delay


@dataclass(frozen=True)
class Replayed:
    """What came of a replay: ids int64 [17, stop − first], aligned, without the prefix."""

    plan: ReplayPlan
    ids: NDArray[np.int64]

    @property
    def text(self) -> NDArray[np.int64]:
        """[stop − first]."""
        return self.ids[0]

    @property
    def agent(self) -> NDArray[np.int64]:
        """[8, stop − first]."""
        return self.ids[1 : 1 + CODEBOOKS]

    @property
    def caller(self) -> NDArray[np.int64]:
        """[8, stop − first]."""
        return self.ids[1 + CODEBOOKS :]


def response_frame(call: Call) -> int | None:
    """The frame at which a call's scripted response starts.

    As the store has it; else that of the agent's first word that begins after a caller's word; else of the
    agent's first word. None where the agent says nothing.
    """
    stored = call.row["response_start_frame"]
    if stored is not None:
        return int(stored)
    said = call.words.filter(pl.col("frame") >= 0).sort("frame")
    if not said.height:
        return None
    caller = call.words.filter(pl.col("speaker") != said["speaker"][0])
    if caller.height:
        after = said.filter(pl.col("start_us") > caller["start_us"].min())
        said = after if after.height else said
    return int(said["frame"][0])


def first_free_frame(call: Call, *, cue: Literal["free", "forced"] = "free") -> int:
    """The first frame that is not forced: where the response starts, or its end-of-padding cue before it.

    Raises UsageError for a call whose agent says nothing.
    """
    start = response_frame(call)
    if start is None:
        raise UsageError(
            f"call {call.call_id!r} has no response to replay: its agent says nothing",
            next_step="Choose another call, or give its response_start_s in the sidecar.",
        )
    pieces = np.flatnonzero(call.role[start:] == TAG_FIRST)
    piece = start + int(pieces[0]) if len(pieces) else start
    if cue == "free" and piece > 0 and call.role[piece - 1] == TAG_EPAD:
        piece -= 1
    return min(start, piece)


def plan_replay(
    call: Call,
    *,
    prefix_frames: int,
    context: int,
    delay: int,
    options: ReplayOptions,
    before: int | None = None,
) -> ReplayPlan:
    """Which frames are forced and which free. The opening loses its beginning where the context is too short
    for all of it; the prefix never does. `before`: a frame that is free even where the response starts later. Raises
    UsageError where prefix and response alone do not fit."""
    free = first_free_frame(call, cue=options.cue)
    free = free if before is None else min(free, max(before, 0))
    room = context - prefix_frames - options.frames - delay
    if room < 0:
        raise UsageError(
            f"a prefix of {prefix_frames} frames and {options.frames} free ones do not fit in a context of {context}",
            where=call.call_id,
            next_step="Generate fewer seconds, or use a shorter prefix.",
        )
    return ReplayPlan(prefix_frames, max(0, free - room), free, free + options.frames, delay)


def forced_ids(call: Call, plan: ReplayPlan) -> Tensor:
    """Aligned ids of prefix and opening, int64 [17, forced frames]."""
    composed = call.with_prefix()
    keep = np.r_[0 : plan.prefix_frames, plan.prefix_frames + plan.first : plan.prefix_frames + plan.free]
    ids = np.concatenate([composed.text[None, keep], composed.codes[:, keep].astype(np.int64)])
    return torch.from_numpy(ids.astype(np.int64))


def caller_ids(call: Call, plan: ReplayPlan, silence: NDArray[np.uint16]) -> Tensor:
    """The caller's codes from the first free frame on, int64 [8, free frames + delay].

    silence: codes [n, 8] of silence, heard once the call has ended, from the first on.
    """
    wanted = plan.stop + plan.delay - plan.free
    codes = call.codes[CODEBOOKS:, plan.free :][:, :wanted]
    missing = wanted - codes.shape[1]
    if missing > len(silence):
        raise UsageError(f"{missing} frames of silence are needed, got {len(silence)}", where=call.call_id)
    return torch.from_numpy(np.concatenate([codes, silence[:missing].T], axis=1).astype(np.int64))


def call_memory(
    call: Call,
    *,
    prefix_frames: int,
    first: int,
    steps: int,
    text_table: Tensor,
    window: int = WINDOW,
    starts_at_us: int | None = None,
) -> CallMemory | None:
    """The memory that `steps` steps see, on the device of `text_table`, the frozen text embedding [C, E]; None
    without states. Step `prefix_frames` is frame `first` of the call; steps may go on past the call's end.

    `call` may carry a partner's memory (`Call.wrong_memory`) or be another call altogether. window: newest
    tokens that stay live, as the store was built. starts_at_us: session time of the call's frame 0, the call's
    own by default. Which updates a step may see is what the sidecar of the call whose memory it is permits.
    """
    states = call.states
    starts_at_us = call.recording_starts_at_us if starts_at_us is None else starts_at_us
    if states is None or starts_at_us is None:
        return None
    tokens = call.tokens
    clock = SessionClock(starts_at_us + first * FRAME_US, prefix_frames, steps)
    versions = build_versions(tokens, clock, window=window, permitted=call.permitted)
    return assembled_memory(tokens, states, versions, text_table)


def assembled_memory(
    tokens: pl.DataFrame, states: Tensor, versions: pl.DataFrame, text_table: Tensor
) -> CallMemory:
    """What `versions` of tokens [N] with states [N, 3, D] hold, on the device of `text_table` [C, E]."""
    rows = versions["row"].to_numpy()
    low, high = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    tokens = tokens[low:high]
    pieces = tokens["piece_ids"]
    lengths = pieces.list.len().fill_null(0).to_numpy().astype(np.int64)
    ids = pieces.filter(pl.Series(lengths > 0)).explode().to_numpy().astype(np.int64)
    device = text_table.device

    def column(name: str) -> Tensor:
        return torch.from_numpy(versions[name].to_numpy().copy()).to(device)

    return CallMemory(
        states=states[low:high].to(device),
        text_features=text_features(
            torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)])), torch.from_numpy(ids), text_table
        ),
        kind=torch.from_numpy(tokens["kind"].to_physical().to_numpy().astype(np.int64)).to(device),
        row=column("row") - low,
        start=column("start"),
        end=column("end"),
        recency=column("recency"),
        age=column("age"),
        whole=column("whole"),
    )


def replay(
    lm: PersonaPlexLM,
    call: Call,
    plan: ReplayPlan,
    caller: Tensor,
    options: ReplayOptions,
    *,
    readers: MemoryReaders | None = None,
    memory: CallMemory | None = None,
) -> Replayed:
    """Generate one call's response. Without readers or memory this is the baseline, the native model.

    caller: int64 [8, free frames + delay].
    """
    live = LiveMemory(readers, memory) if readers is not None and memory is not None else None
    generator = StreamingGenerator(
        lm,
        sampling=options.sampling,
        seed=options.seed_of(call.call_id),
        ring=options.ring,
        after_block=live.after_block if live is not None else None,
    )
    forced = forced_ids(call, plan)
    steps = generator.replay(forced[None].to(lm.device))
    for column in caller.to(lm.device).unbind(1):
        steps.append(generator.step(generator.frame(caller=column[None])))
    ids = torch.cat([step.codes for step in steps if step.codes is not None])
    kept = ids[plan.prefix_frames : plan.prefix_frames + plan.stop - plan.first].T.cpu().numpy()
    return Replayed(plan, kept)
