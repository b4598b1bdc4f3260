"""One call of a store, read when asked for; and the same call with a prefix in front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from inkplex_data.clock import FRAME_US
from inkplex_data.errors import StoreCorruptError, UsageError
from inkplex_data.libraries import require
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.store.documents import parse_value
from inkplex_data.store.files import RESTORE
from inkplex_data.store.format import CLAIMS, EVIDENCE, PROBLEMS, WORDS, offset_column
from inkplex_data.store.frame_streams import FrameStream, OnFrames
from inkplex_data.store.parquet import Schema

if TYPE_CHECKING:
    import torch

    from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
    from inkplex_data.memory.permissions import Permitted
    from inkplex_data.store.reader import Store

OWN: Final = "\0own"
"""Default of `with_prefix`: the voice or role that the call's own prefix has. None means "without"."""


@dataclass(frozen=True)
class StoredPrefix(OnFrames):
    """A prefix of P frames as the store has it: its row of the prefixes table and its stored streams, [P, …]."""

    row: dict[str, Any]
    stored: Mapping[str, np.ndarray]

    @property
    def frames(self) -> int:
        """P."""
        return len(next(iter(self.stored.values()), ()))

    def _read_stream(self, stream: FrameStream) -> np.ndarray:
        stored = self.stored.get(stream.name)
        return np.ascontiguousarray(stream.unknown(self.frames).T if stored is None else stored.T)

    @classmethod
    def none(cls) -> StoredPrefix:
        """The prefix of a call that has none."""
        return cls({}, {})


class Call(OnFrames):
    """One call, call-relative: frame 0 is the first of its audio. Parts are read on first use.

    `row` is the call's line of the calls table; `memory_of` another call whose memory this one reads instead of
    its own. Every part raises StoreCorruptError where stored bytes are damaged or missing.
    """

    def __init__(self, source: Store, row: dict[str, Any], *, memory_of: Call | None = None) -> None:
        self._source = source
        self.row = row
        self.memory_of = memory_of

    def __repr__(self) -> str:
        return f"Call({self.call_id!r}, frames={self.frames}, recording={self.recording_id!r})"

    @property
    def call_id(self) -> str:
        return str(self.row["call_id"])

    @property
    def frames(self) -> int:
        """F, frames of the call's audio."""
        return int(self.row["frames"])

    @property
    def split(self) -> str:
        return str(self.row["split"])

    @property
    def recording_id(self) -> str | None:
        """The task recording whose memory this call reads, None without one."""
        row = self.row if self.memory_of is None else self.memory_of.row
        return row["recording_id"]

    @property
    def recording_starts_at_us(self) -> int | None:
        """Session time of frame 0."""
        row = self.row if self.memory_of is None else self.memory_of.row
        return row["recording_starts_at_us"]

    @cached_property
    def words(self) -> pl.DataFrame:
        """The call's words, `format.WORDS` without `call_ix`."""
        return self._rows("words", WORDS)

    @cached_property
    def evidence(self) -> pl.DataFrame:
        """What the call's sidecar gives as evidence, `format.EVIDENCE` without `call_ix`."""
        return self._rows("evidence", EVIDENCE)

    @cached_property
    def claims(self) -> pl.DataFrame:
        """What the agent claims and on which evidence, `format.CLAIMS` without `call_ix`."""
        return self._rows("claims", CLAIMS)

    @cached_property
    def sidecar(self) -> Sidecar | None:
        """What is known of the call besides its audio; None where the corpus has no sidecar of it."""
        from inkplex_data.corpus.sidecars.sidecar_models import Sidecar

        if self.row["sidecar"] is None:
            return None
        try:
            known = Sidecar.model_validate(parse_value(self.row["sidecar"], where=self.call_id))
        except ValueError as error:
            what = f"its stored sidecar cannot be read: {error}"
            raise StoreCorruptError(what, where=self.call_id, next_step=RESTORE) from error
        if self.row["claims"] is None and known.masks is not None and not known.masks.permitted_updates:
            # Shards from before there were claims spell "no list of permissions" as an empty one.
            return known.model_copy(
                update={"masks": known.masks.model_copy(update={"permitted_updates": None})}
            )
        return known

    @cached_property
    def permitted(self) -> Permitted | None:
        """When the tokens of the memory that this call reads may be seen; None where all may from their arrival on."""
        from inkplex_data.memory.permissions import permitted_tokens

        if self.memory_of is not None:
            return self.memory_of.permitted
        if self.recording_id is None or self.recording_starts_at_us is None:
            return None
        tokens = self._source.recording_row(self.recording_id)["tokens"]
        return permitted_tokens(self.sidecar, tokens, self.recording_starts_at_us)

    @cached_property
    def versions(self) -> pl.DataFrame:
        """Versions of the call's memory, `memory.tables.VERSIONS` without `call_ix`; empty without a recording."""
        if self.memory_of is None:
            return self._rows("versions", VERSIONS)
        from inkplex_data.memory.versions import SessionClock, build_versions

        starts_at_us = self.recording_starts_at_us
        assert starts_at_us is not None
        clock = SessionClock(starts_at_us, 0, self.frames)
        return build_versions(self.tokens, clock, window=self._source.window, permitted=self.permitted)

    @cached_property
    def tokens(self) -> pl.DataFrame:
        """The recording's tokens in layout order, `memory.tables.TOKENS` without `recording_ix`."""
        columns = [name for name in TOKENS if name != "recording_ix"]
        if self.recording_id is None:
            return pl.DataFrame(schema={name: TOKENS[name] for name in columns})
        row = self._source.recording_row(self.recording_id)
        reader = self._source.table("recordings", row["shard"], "tokens")
        return reader.read(row["token_offset"], row["tokens"], columns=columns)

    @property
    def states_u16(self) -> np.ndarray | None:
        """uint16 [N, 3, D], the bits of the recording's states, read anew each time; None without states."""
        if self.recording_id is None:
            return None
        row = self._source.recording_row(self.recording_id)
        if not row["state_width"]:
            return None
        first = row["token_offset"]
        return self._source.states(row["shard"]).read_rows(first, first + row["tokens"])

    @property
    def states(self) -> torch.Tensor | None:
        """bfloat16 [N, 3, D], rows 28, 34 and 42 of each token, read anew each time; None without states.

        Raises MissingLibraryError without torch; `states_u16` needs none.
        """
        torch_ = require("torch", extra="train", needed_for="states as tensors")
        bits = self.states_u16
        return None if bits is None else torch_.from_numpy(bits).view(torch_.bfloat16)

    @property
    def problems(self) -> pl.DataFrame:
        """The call's problems, `format.PROBLEMS`."""
        return self._source.problems_of(self.call_id).select(list(PROBLEMS))

    def with_prefix(self, *, voice: str | None = OWN, role: str | None = OWN) -> ComposedCall:
        """The call with a stored prefix before it: another voice or role needs no rebuild.

        By default the prefix that the call was built with; one of the two may be given alone, and None
        means a prefix without that part. Raises UsageError naming the stored pairs if this one is not.
        """
        own_id = self.row["prefix_id"]
        if voice == OWN and role == OWN:
            prefix = StoredPrefix.none() if own_id is None else self._source.prefix_by_id(own_id)
            return ComposedCall(self, prefix)
        own = {} if own_id is None else self._source.prefix_by_id(own_id).row
        voice = own.get("voice") if voice == OWN else voice
        role = own.get("role") if role == OWN else role
        return ComposedCall(self, self._source.prefix(voice, role, split=self.split))

    def wrong_memory(self) -> Call:
        """This call with the memory of its partner, `wrong_memory_of`: the partner's tokens, states and
        start on the session clock, and its permitted updates, versions built for this call's frames. With `with_prefix` it is a
        composed example like any other, whose prefix frames read the partner's memory at that start.

        Raises UsageError if the call has no partner or the partner no recording.
        """
        partner_id = self.row["wrong_memory_of"]
        if partner_id is None:
            raise UsageError(f"call {self.call_id!r} has no partner for wrong memory")
        partner = self._source.call(partner_id)
        if partner.recording_id is None or partner.recording_starts_at_us is None:
            raise UsageError(f"call {partner_id!r}, the partner of {self.call_id!r}, has no recording")
        return Call(self._source, self.row, memory_of=partner)

    def _read_stream(self, stream: FrameStream) -> np.ndarray:
        first = self.row["frame_offset"]
        stored = self._source.array("calls", self.row["shard"], stream.name)
        return np.ascontiguousarray(stored.read(first, first + self.frames).T)

    def _rows(self, table: str, schema: Schema) -> pl.DataFrame:
        own = {name: dtype for name, dtype in schema.items() if name != "call_ix"}
        if not self.row[table]:
            return pl.DataFrame(schema=own)
        reader = self._source.table("calls", self.row["shard"], table)
        return reader.read(self.row[offset_column(table)], self.row[table], columns=list(own))


@dataclass(frozen=True)
class ComposedCall(OnFrames):
    """A call after P prefix frames: what a model is trained on. Delays are not applied here.

    With two prefix frames p and three of a call c, `text` is p p c c c, `mask` is 0 0 c c c (a prefix carries no loss),
    and a version of steps [1, 3) is visible at [3, 5), one of [0, 3) at [0, 5): a prefix reads what frame 0 reads.
    """

    call: Call
    prefix: StoredPrefix

    @property
    def prefix_frames(self) -> int:
        """P."""
        return self.prefix.frames

    @property
    def frames(self) -> int:
        """P + F."""
        return self.prefix.frames + self.call.frames

    @cached_property
    def versions(self) -> pl.DataFrame:
        """The call's versions on the composed grid: [s, e) → [s + P, e + P), but s = 0 stays 0."""
        from inkplex_data.memory.versions import shift_versions

        return shift_versions(self.call.versions, self.prefix.frames)

    @cached_property
    def words(self) -> pl.DataFrame:
        """The call's words on the composed grid: frames and times after the prefix; −1 stays −1."""
        frame, prefix_us = pl.col("frame"), self.prefix.frames * FRAME_US
        return self.call.words.with_columns(
            pl.when(frame >= 0)
            .then(frame + self.prefix.frames)
            .otherwise(frame)
            .cast(pl.Int32)
            .alias("frame"),
            pl.col("start_us", "end_us") + prefix_us,
        )

    @property
    def tokens(self) -> pl.DataFrame:
        """As `Call.tokens`."""
        return self.call.tokens

    @property
    def states(self) -> torch.Tensor | None:
        """As `Call.states`."""
        return self.call.states

    @property
    def states_u16(self) -> np.ndarray | None:
        """As `Call.states_u16`."""
        return self.call.states_u16

    def _read_stream(self, stream: FrameStream) -> np.ndarray:
        return np.concatenate([self.prefix.stream(stream.name), self.call.stream(stream.name)], axis=-1)
