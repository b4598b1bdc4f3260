"""`audit`: is every frame of a store causal. What a build derived is derived again, by another route.

The proof of one call's visibility is `audit.causality`; here are the walk through a store, and what lies
between its parts: prefixes, sidecars, wrong memory and twins. Bytes and digests are for `store.verify`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from inkplex_data.audit.causality import ArrivedTokens, Audited, audit_versions
from inkplex_data.audit.frames import TextRules, frame_faults, word_faults
from inkplex_data.audit.sidecar_evidence import audit_sidecar, read_stored_sidecar
from inkplex_data.audit.stored_prefixes import PrefixAudit
from inkplex_data.audit.token_tables import audit_tokens
from inkplex_data.corpus.sidecars.sidecar import frame_mask
from inkplex_data.errors import CausalityError, InkplexError
from inkplex_data.faults import Fault
from inkplex_data.grid import TEXT_CARD
from inkplex_data.memory.partners import EVALUATED
from inkplex_data.memory.twins import check_twins, root_of, twin_recordings
from inkplex_data.memory.versions import SessionClock
from inkplex_data.plural import counted
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store

Progress = Callable[[str, int, int], None]
"""Called with the id of the call or recording that was audited, and how many are done and to do in all."""

_KEPT_TABLES = 4
"""Token tables held at a time: a recording's, and those of its twins."""
_PLACE = ["call", "position", "token_id"]


@dataclass
class StoreAudit:
    """What an audit looked at, and what it found wrong."""

    calls: int = 0
    without_memory: int = 0
    recordings: int = 0
    steps: int = 0
    tokens: int = 0
    versions: int = 0
    comparisons: int = 0
    """Live tokens summed over the steps: each was compared once."""
    sidecars: int = 0
    partners: int = 0
    twins: int = 0
    pairs: int = 0
    frames: int = 0
    words: int = 0
    prefixes: int = 0
    violations: list[Fault] = field(default_factory=list)
    """The first of each call, or of the recording where no call is to blame."""

    @property
    def clean(self) -> bool:
        return not self.violations

    def add(self, audited: Audited) -> None:
        self.steps += audited.steps
        self.versions += audited.versions
        self.comparisons += audited.comparisons

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """The totals as a person reads them."""
        bad = len(self.violations)
        found = "no violation" if self.clean else f"violations in {bad:,} of the calls and recordings"
        return (
            f"{counted(self.calls, 'call')} ({self.without_memory:,} without memory) over "
            f"{counted(self.recordings, 'recording')}: {counted(self.frames, 'frame')}, {counted(self.words, 'word')}, "
            f"prefixes: {self.prefixes:,}, {counted(self.steps, 'step')}, {counted(self.tokens, 'token')}, "
            f"{counted(self.versions, 'version')}, {counted(self.comparisons, 'comparison')}; "
            f"{counted(self.sidecars, 'sidecar')}, {counted(self.partners, 'partner')} for wrong memory, "
            f"{counted(self.twins, 'twin')}, pairs of calls: {self.pairs:,}; {found}"
        )


def audit_store(store: Store, *, progress: Progress | None = None) -> StoreAudit:
    """Audit every call of an opened store; one call's violation does not stop the others.

    For every recording: layout order, arrivals that never fall within a request, ranks, words and pieces.
    For every prefix: its parts, and that silence and tone are those of the others. For every call: ids and tags of
    its frames, the words that its text stream spells, its loss mask against its sidecar; its versions against tokens and clock, as stored and with its prefix; its sidecar's
    updates, evidence and claims; its partner for wrong memory. For twins: equal tokens before their fork
    and others after it, and calls that begin together see the same until then.
    """
    return _Auditor(store, progress).run()


class _Auditor:
    """One pass over a store. Of recordings it holds the token tables of a few, of calls one at a time."""

    def __init__(self, store: Store, progress: Progress | None) -> None:
        self.store = store
        self.audit = StoreAudit()
        self.calls = store.calls().select("call_id", "family", "recording_id").collect()
        self.branches = store.branches()
        self.recordings: list[str] = store.owners("recordings")["recording_id"].to_list()
        self.prefixes: list[str] = store.prefixes().select("prefix_id").collect()["prefix_id"].to_list()
        pieces = store.pieces()
        self.text_rules = TextRules(
            store.setting("text", "in_word_padding"),
            bool(store.setting("text", "speaker_tokens")),
            TEXT_CARD if pieces is None else len(pieces),
        )
        self.prefix_audit = PrefixAudit(pieces)
        self._tables: deque[tuple[str, pl.DataFrame]] = deque(maxlen=_KEPT_TABLES)
        self._arrived: tuple[str, ArrivedTokens] | None = None
        self._progress = progress
        self._done = 0

    def run(self) -> StoreAudit:
        audit = self.audit
        audit.calls = self.calls.height
        audit.recordings = len(self.recordings)
        by_recording = self.calls.partition_by("recording_id", as_dict=True, maintain_order=True)
        for prefix_id in self.prefixes:
            self._guard(prefix_id, self._prefix, prefix_id)
        for recording_id in self.recordings:
            self._guard(recording_id, self._recording, recording_id)
            for call_id in _ids(by_recording.pop((recording_id,), None)):
                self._guard(call_id, self._call, call_id)
        # Left are calls without a recording, and those whose recording is lost.
        for calls in by_recording.values():
            for call_id in _ids(calls):
                self._guard(call_id, self._call_without, call_id)
        for one, other, fork_us in twin_recordings(self.branches, self.recordings):
            self._guard(other, self._twin, one, other, fork_us)
        pairs = self.store.pairs().collect()
        audit.pairs = pairs.height
        for pair in pairs.filter("same_start").iter_rows(named=True):
            # A call that sees the wrong things anyway says nothing about its twin.
            if not {pair["call_id"], pair["twin_call_id"]} & self._blamed():
                self._guard(pair["twin_call_id"], self._pair, pair)
        audit.violations.sort(key=lambda violation: violation.where)
        return audit

    def _guard(self, item: str, check: Callable[..., None], *arguments: Any) -> None:
        """Run one check; note the first violation of each item."""
        try:
            check(*arguments)
        except InkplexError as error:
            if item not in self._blamed():
                self.audit.violations.append(Fault(error.what, where=item))
        self._done += 1
        if self._progress is not None:
            total = len(self.prefixes) + len(self.recordings) + self.calls.height
            self._progress(item, self._done, max(self._done, total))

    def _blamed(self) -> set[str]:
        return {violation.where for violation in self.audit.violations}

    def _recording(self, recording_id: str) -> None:
        tokens = self._tokens(recording_id)
        self.audit.tokens += tokens.height
        audit_tokens(tokens, spelling=self.spelling, recording_id=recording_id)

    def _prefix(self, prefix_id: str) -> None:
        self.audit.prefixes += 1
        _refuse(self.prefix_audit.faults(self.store.prefix_by_id(prefix_id)))

    def _frames(self, call: Call) -> None:
        """What the call's frames hold, before it is asked what they may see."""
        self.audit.frames += call.frames
        self.audit.words += call.words.height
        text = call.row["sidecar"]
        permitted = None if text is None else frame_mask(read_stored_sidecar(text, call.call_id), call.frames)
        _refuse(frame_faults(call, self.text_rules, permitted))
        _refuse(word_faults(call, call.words, self.text_rules))

    def _call_without(self, call_id: str) -> None:
        call = self.store.call(call_id)
        row = call.row
        self._frames(call)
        if row["recording_id"] is not None:
            raise CausalityError(f"its recording {row['recording_id']!r} is not in the store")
        self.audit.without_memory += 1
        if row["versions"]:
            raise CausalityError(f"it has {row['versions']} versions and no recording")
        self._sidecar(row, None)
        self._partner(row)

    def _call(self, call_id: str) -> None:
        call = self.store.call(call_id)
        row = call.row
        self._frames(call)
        tokens = self._tokens(row["recording_id"])
        if row["recording_starts_at_us"] is None:
            raise CausalityError("it has a recording, but no start on that recording's clock")
        if self._arrived is None or self._arrived[0] != row["recording_id"]:
            self._arrived = row["recording_id"], ArrivedTokens(tokens)
        self._visibility(call, self._arrived[1], row["recording_starts_at_us"])
        self._sidecar(row, tokens)
        self._partner(row)

    def _visibility(self, call: Call, tokens: ArrivedTokens, starts_at_us: int) -> None:
        window = self.store.window
        versions = call.versions
        clock = SessionClock(starts_at_us, 0, call.frames)
        self.audit.add(audit_versions(tokens, clock, versions, window=window, call_id=call.call_id))
        composed = call.with_prefix()
        prefix = composed.prefix_frames
        moved = versions.with_columns(
            pl.when(pl.col("start") > 0).then(pl.col("start") + prefix).otherwise(0), pl.col("end") + prefix
        )
        if not composed.versions.equals(moved.cast(composed.versions.schema)):
            raise CausalityError(f"its versions do not move by the {prefix} frames of its prefix")
        # The steps after the first of the call are those above, moved. Left are the prefix's own.
        frames = min(prefix + 1, composed.frames)
        opening = moved.filter(pl.col("start") < frames).with_columns(pl.col("end").clip(upper_bound=frames))
        clock = SessionClock(starts_at_us, prefix, frames)
        try:
            audited = audit_versions(tokens, clock, opening, window=window, call_id=call.call_id)
        except CausalityError as error:
            raise CausalityError(f"with its prefix of {prefix} frames: {error.what}") from error
        self.audit.add(audited)

    def _sidecar(self, row: dict[str, Any], tokens: pl.DataFrame | None) -> None:
        if row["sidecar"] is not None:
            self.audit.sidecars += 1
            audit_sidecar(row["sidecar"], tokens, row["recording_starts_at_us"], call_id=row["call_id"])

    def _partner(self, row: dict[str, Any]) -> None:
        partner_id = row["wrong_memory_of"]
        if partner_id is None:
            return
        self.audit.partners += 1
        what = f"its partner for wrong memory, {partner_id!r},"
        found = self.calls.filter(pl.col("call_id") == partner_id)
        if not found.height:
            raise CausalityError(f"{what} is not in the store")
        partner = found.row(0, named=True)
        if row["split"] not in EVALUATED:
            raise CausalityError(f"{what} is set although the call is in split {row['split']!r}")
        if partner["recording_id"] is None:
            raise CausalityError(f"{what} has no recording")
        if partner["family"] == row["family"]:
            raise CausalityError(f"{what} is of its own family {row['family']!r}")
        own = row["recording_id"]
        if own is not None and root_of(self.branches, own) == root_of(self.branches, partner["recording_id"]):
            raise CausalityError(f"{what} reads {partner['recording_id']!r}, a twin of its own {own!r}")

    def _twin(self, one: str, other: str, fork_us: int) -> None:
        self.audit.twins += 1
        tables = [self._tokens(name) for name in (one, other)]
        check_twins(*tables, at_us=fork_us, names=(one, other))
        after = [
            table.filter(pl.col("arrival_us") >= fork_us)
            .select("arrival_us", *_PLACE, "bytes")
            .sort("arrival_us", "call", "position")
            for table in tables
        ]
        if after[0].height and after[0].equals(after[1]):
            what = (
                f"it has all the tokens of {one!r} after their fork at {fork_us} µs too: they are one branch"
            )
            raise CausalityError(what)

    def _pair(self, pair: dict[str, Any]) -> None:
        """What two calls that begin together see before the first frame that can see the fork is equal."""
        calls = [self.store.call(pair[name]) for name in ("call_id", "twin_call_id")]
        limit = min(pair["fork_frame"], *(call.frames for call in calls))
        ours, theirs = (self._seen(call, limit) for call in calls)
        alike = ours.columns
        differing = pl.concat(
            [ours.join(theirs, on=alike, how="anti"), theirs.join(ours, on=alike, how="anti")]
        )
        if differing.height:
            first = differing.sort("start", *_PLACE).row(0, named=True)
            raise CausalityError(
                f"step {first['start']}: request {first['call']}, position {first['position']} (id "
                f"{first['token_id']}) is seen differently by {pair['call_id']!r}, whose recording is the same "
                f"until {pair['fork_us']} µs, step {pair['fork_frame']}"
            )

    def _seen(self, call: Call, limit: int) -> pl.DataFrame:
        """The call's versions before step `limit`, with the places of their tokens instead of rows."""
        assert call.recording_id is not None
        tokens = self._tokens(call.recording_id).select("row", *_PLACE)
        return (
            call.versions.filter(pl.col("start") < limit)
            .with_columns(pl.col("end").clip(upper_bound=limit))
            .join(tokens, on="row", how="left")
            .drop("row")
        )

    def _tokens(self, recording_id: str) -> pl.DataFrame:
        for name, table in self._tables:
            if name == recording_id:
                return table
        row = self.store.recording_row(recording_id)
        reader = self.store.table("recordings", row["shard"], "tokens")
        table = reader.read(row["token_offset"], row["tokens"])
        self._tables.append((recording_id, table))
        return table


def _refuse(faults: Iterable[str]) -> None:
    for what in faults:
        raise CausalityError(what)


def _ids(calls: pl.DataFrame | None) -> list[str]:
    return [] if calls is None else calls["call_id"].to_list()
