"""What a timeline shows of one call, as plain arrays and tables: no store, no console, no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from inkplex_data.clock import FRAME_US
from inkplex_data.grid import KINDS, MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_TEXT, WINDOW
from inkplex_data.memory.permissions import Permitted
from inkplex_data.memory.token_order import arrival_rank

Side = Literal["agent", "caller"]
MODALITIES = (("text", MASK_TEXT), ("agent", MASK_AGENT), ("caller", MASK_CALLER))


@dataclass(frozen=True)
class PrefixSummary:
    """The prefix before the call: `frames` in all; two silences of equal length around the role pieces."""

    frames: int
    voice: str | None
    role: str | None
    voice_frames: int
    role_pieces: int

    def parts(self) -> list[tuple[str, int]]:
        """(what, frames) in order; parts of no frames are left out."""
        silence = max(self.frames - self.voice_frames - self.role_pieces, 0)
        before = silence // 2
        voice = f"voice {self.voice}" if self.voice else "voice"
        listed = [
            (voice, self.voice_frames), ("silence", before), ("role", self.role_pieces), ("silence", silence - before),
        ]  # fmt: skip
        return [(what, frames) for what, frames in listed if frames]


@dataclass(frozen=True)
class Mark:
    """A moment worth pointing at, such as where the response begins."""

    frame: int
    label: str


@dataclass(frozen=True)
class ViewedProblem:
    """One problem of a call; `frame` is where it lies, None where it has no place or none is known."""

    code: str
    severity: str
    message: str
    frame: int | None


@dataclass(frozen=True)
class CallView:
    """One call of F frames.

    `ids` int32 [F], `tags` uint8 [F] and `mask` uint8 [F] are the text stream, and `spelled` the pieces of
    its ids as text; `agent_db` and `caller_db` float32 [F] the level in dBFS of every frame, None where the
    audio was not at hand. `main_speaker` is None where everybody speaks in the agent's stream. `words` has text, start_us, end_us, speaker, frame, placed and pieces. `tokens`
    has arrival_us and kind; None without a recording. `facts` are shown as they are.
    """

    call_id: str
    ids: NDArray[np.int32]
    tags: NDArray[np.uint8]
    words: pl.DataFrame
    spelled: Mapping[int, str] = field(default_factory=dict)
    mask: NDArray[np.uint8] | None = None
    agent_db: NDArray[np.float32] | None = None
    caller_db: NDArray[np.float32] | None = None
    prefix: PrefixSummary | None = None
    tokens: pl.DataFrame | None = None
    recording_starts_at_us: int = 0
    window: int = WINDOW
    permitted: Permitted | None = None
    main_speaker: str | None = "SPEAKER_MAIN"
    marks: Sequence[Mark] = ()
    problems: Sequence[ViewedProblem] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("tags", "mask", "agent_db", "caller_db"):
            values = getattr(self, name)
            if values is not None and len(values) != self.frames:
                raise ValueError(f"{name} has {len(values)} values for {self.frames} frames")

    @property
    def frames(self) -> int:
        """F."""
        return len(self.ids)

    @property
    def sides(self) -> tuple[Side, ...]:
        """Who has a stream."""
        return ("agent",) if self.main_speaker is None else ("agent", "caller")

    @property
    def modalities(self) -> tuple[str, ...]:
        """What there is that could carry loss."""
        return ("text", *self.sides)

    def piece(self, piece_id: int) -> str:
        """A piece as text, `#id` where its spelling is not known."""
        return self.spelled.get(piece_id, f"#{piece_id}")

    def side_words(self, side: Side) -> pl.DataFrame:
        """The words of one side, by onset. Everyone but the main speaker counts as the caller."""
        own = pl.lit(value=True)
        if self.main_speaker is not None:
            own = (pl.col("speaker") == self.main_speaker).fill_null(value=False)
        return self.words.filter(own if side == "agent" else ~own).sort("start_us", maintain_order=True)

    def spoken(self, side: Side) -> NDArray[np.bool_]:
        """bool [F]: frames that a word of this side touches."""
        frames = np.zeros(self.frames, np.bool_)
        for start_us, end_us in self.side_words(side).select("start_us", "end_us").iter_rows():
            frames[max(start_us // FRAME_US, 0) : max(-(-end_us // FRAME_US), 0)] = True
        return frames

    def gaps(self, modality: str) -> NDArray[np.bool_]:
        """bool [F]: frames in which this modality carries no loss."""
        mask = np.full(self.frames, MASK_ALL, np.uint8) if self.mask is None else self.mask
        return (mask & dict(MODALITIES)[modality]) == 0

    @cached_property
    def memory(self) -> Memory | None:
        """The memory over the call's time, None without a recording."""
        if self.tokens is None:
            return None
        return Memory.of(
            self.tokens,
            starts_at_us=self.recording_starts_at_us,
            frames=self.frames,
            window=self.window,
            permitted=self.permitted,
        )


@dataclass(frozen=True)
class Memory:
    """Tokens by kind as the frames of a call first see them.

    `before` counts what frame 0 sees, `arrivals` int64 [kinds, F] what each later frame sees first, `later`
    what arrives too late for any frame. `live` int64 [F]: size of the memory, never above the window.
    """

    before: dict[str, int]
    arrivals: NDArray[np.int64]
    later: int
    live: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        tokens: pl.DataFrame,
        *,
        starts_at_us: int,
        frames: int,
        window: int,
        permitted: Permitted | None = None,
    ) -> Memory:
        """Frame t sees a token once `starts_at_us + t × 80,000` has reached its arrival, and while it is permitted."""
        since_us = tokens["arrival_us"].to_numpy() - starts_at_us
        first = np.maximum(-(-since_us // FRAME_US), 0)
        kind = tokens["kind"].cast(pl.Enum(KINDS)).to_physical().to_numpy()
        counts = np.zeros((len(KINDS), max(frames, 1)), np.int64)
        later = int((first >= frames).sum())
        live = None
        if permitted is not None:
            step_us = starts_at_us + FRAME_US * np.arange(frames, dtype=np.int64)
            first, live = _permitted_frames(tokens["arrival_us"].to_numpy(), step_us, window, permitted)
        seen = first < frames
        np.add.at(counts, (kind[seen], first[seen]), 1)
        if live is None:
            live = np.minimum(counts.sum(axis=0).cumsum(), window)[:frames]
        before = {name: int(count) for name, count in zip(KINDS, counts[:, 0], strict=True) if count}
        counts[:, 0] = 0
        return cls(before, counts[:, :frames], later, live)


def _permitted_frames(
    arrival_us: NDArray[np.int64], step_us: NDArray[np.int64], window: int, permitted: Permitted
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[N] the first of F frames that sees each token, F where none does, and [F] how many each frame sees."""
    rank = arrival_rank(arrival_us)
    first, live = np.full(len(arrival_us), len(step_us)), np.zeros(len(step_us), np.int64)
    for frame, now_us in enumerate(step_us.tolist()):
        arrived = arrival_us <= now_us
        seen = arrived & (arrived.sum() - rank <= window) & permitted.at(now_us)
        first[seen] = np.minimum(first[seen], frame)
        live[frame] = seen.sum()
    return first, live
