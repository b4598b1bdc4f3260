"""`audit`: is every frame of a store causal. What a build derived is derived again, by another route.

The proof of one call's visibility is `audit.causality`; here are the walk through a store, and what lies
between its parts: prefixes, sidecars, wrong memory and twins. Bytes and digests are for `store.verify`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from inkplex_data.audit.audit_totals import StoreAudit
from inkplex_data.audit.audit_units import AuditLog, AuditUnit, plan_audit, unit_key
from inkplex_data.audit.call_rows import row_faults
from inkplex_data.audit.causality import ArrivedTokens, audit_versions
from inkplex_data.audit.frames import TextRules, frame_faults, word_faults
from inkplex_data.audit.piece_spelling import PieceSpelling
from inkplex_data.audit.sidecar_evidence import audit_sidecar, permissions_of, read_stored_sidecar
from inkplex_data.audit.sidecar_mask import stored_mask
from inkplex_data.audit.stored_claims import audit_claims
from inkplex_data.audit.stored_prefixes import PrefixAudit
from inkplex_data.audit.stored_requests import audit_chain
from inkplex_data.audit.stored_states import ReadRows, audit_states, audit_twin_states
from inkplex_data.audit.token_tables import audit_tokens
from inkplex_data.corpus.word_repair import SPEAKER_MAIN
from inkplex_data.errors import CausalityError, InkplexError
from inkplex_data.faults import Fault
from inkplex_data.memory.partners import EVALUATED
from inkplex_data.memory.twins import check_twins, root_of
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store, open_store

Progress = Callable[[str, int, int], None]
"""Called with the id of the call or recording that was audited, and how many are done and to do in all."""

_KEPT_TABLES = 4
"""Token tables held at a time: a recording's, and those of its twins."""
_PLACE = ["call", "position", "token_id"]


class Runner(Protocol):
    """What runs units elsewhere: results come back in any order, with `index`, `value` and `error`."""

    def map(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]: ...


def audit_store(
    store: Store,
    *,
    calls: Collection[str] | None = None,
    runner: Runner | None = None,
    log: Path | None = None,
    progress: Progress | None = None,
) -> StoreAudit:
    """Audit every call of an opened store, or `calls`; one call's violation does not stop the others.

    For every recording: layout order, positions along its prefix chain, arrivals that never fall within a request,
    ranks, words and pieces; its states against the digests of when they were made.
    For every prefix: its parts, and that silence and tone are those of the others. For every call: ids and tags of
    its frames, the words that its text stream spells, its loss mask against its sidecar, its row; its versions against
    tokens and clock, as stored and with its prefix; its sidecar's
    updates, evidence and claims; its partner for wrong memory. For twins: equal tokens and states before their fork
    and others after it, and calls that begin together see the same until then.

    `runner` audits in other processes, which open the store anew. `log`: a file in which each unit's result is noted;
    with one that is there already, the audit goes on. Raises UsageError for a call that the store does not have and
    for another audit's log.
    """
    for call_id in calls or ():
        store.call_row(call_id)
    auditor = StoreAuditor(store)
    units = auditor.units(calls)
    known = AuditLog(log, store.snapshot) if log is not None else None
    done = dict(known.known) if known is not None else {}
    waiting = [unit for unit in units if unit_key(unit) not in done]
    total = sum(map(len, units))
    counted_ = total - sum(map(len, waiting))
    for unit, found in _found(waiting, auditor, runner):
        done[unit_key(unit)] = found
        if known is not None:
            known.note(unit, found)
        counted_ += len(unit)
        if progress is not None:
            progress(unit.name, counted_, total)
    audit = StoreAudit()
    for unit in units:
        audit.join(done[unit_key(unit)])
    audit.settle()
    return audit


def _found(
    units: Sequence[AuditUnit], auditor: StoreAuditor, runner: Runner | None
) -> Iterator[tuple[AuditUnit, StoreAudit]]:
    if runner is None:
        for unit in units:
            yield unit, auditor.perform(unit)
        return
    place = (auditor.store.root, auditor.store.snapshot.number)
    for outcome in runner.map(_perform, [(*place, unit) for unit in units]):
        if outcome.error is not None:
            raise outcome.error
        yield units[outcome.index], outcome.value


def _perform(task: tuple[str, int, AuditUnit]) -> StoreAudit:
    root, snapshot, unit = task
    return _opened(root, snapshot).perform(unit)


@lru_cache(maxsize=1)
def _opened(root: str, snapshot: int) -> StoreAuditor:
    """One store a process: what it has read of a shard serves every unit."""
    return StoreAuditor(open_store(root, snapshot or None))


class StoreAuditor:
    """One pass over a store. Of recordings it holds the token tables of a few, of calls one at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.audit = StoreAudit()
        self.calls = store.calls().select("call_id", "family", "recording_id", "prefix_id").collect()
        self.branches = store.branches()
        pieces = store.pieces()
        spelling = None if pieces is None else PieceSpelling(pieces.to_list())
        self.text_rules = TextRules(
            store.setting("text", "in_word_padding"), bool(store.setting("text", "speaker_tokens")), spelling
        )
        self.prefix_audit = PrefixAudit(pieces)
        self._rows = {row["recording_id"]: row for row in store.recordings().collect().iter_rows(named=True)}
        self._tables: deque[tuple[str, pl.DataFrame]] = deque(maxlen=_KEPT_TABLES)
        self._arrived: tuple[str, ArrivedTokens] | None = None

    def units(self, calls: Collection[str] | None = None) -> list[AuditUnit]:
        """What is to be done for the whole store, or for `calls` and what they rest on."""
        prefixes = self.store.prefixes().select("prefix_id").collect()["prefix_id"].to_list()
        pairs = self.store.pairs().collect()
        return list(
            plan_audit(
                self.calls,
                recordings=list(self._rows),
                prefixes=prefixes,
                branches=self.branches,
                pairs=pairs,
                chosen=calls,
            )
        )

    def perform(self, unit: AuditUnit) -> StoreAudit:
        """Audit one unit."""
        self.audit = audit = StoreAudit(calls=len(unit.calls), recordings=unit.recording is not None)
        for prefix_id in unit.prefixes:
            self._guard(prefix_id, self._prefix, prefix_id)
        if unit.recording is not None:
            self._guard(unit.recording, self._recording, unit.recording)
        for call_id in unit.calls:
            self._guard(call_id, self._call if unit.recording is not None else self._call_without, call_id)
        if unit.twins is not None:
            self._guard(unit.twins[1], self._twin, *unit.twins)
        for pair in unit.pairs:
            audit.pairs += 1
            try:
                self._pair(*pair)
            except InkplexError as error:
                audit.between.append((Fault(error.what, where=pair[1]), pair[0]))
        return audit

    def _guard(self, item: str, check: Callable[..., None], *arguments: Any) -> None:
        """Run one check; note its violation."""
        try:
            check(*arguments)
        except InkplexError as error:
            self.audit.violations.append(Fault(error.what, where=item))

    def _recording(self, recording_id: str) -> None:
        tokens = self._tokens(recording_id)
        self.audit.tokens += tokens.height
        row = self._rows[recording_id]
        audit_tokens(tokens, spelling=self.text_rules.spelling, recording_id=recording_id)
        audit_chain(tokens, row.get("requests"), recording_id=recording_id)
        if row["state_width"]:
            self.audit.states += tokens.height
            audit_states(
                tokens, self._states(recording_id), row.get("state_digests"), recording_id=recording_id
            )

    def _prefix(self, prefix_id: str) -> None:
        self.audit.prefixes += 1
        _refuse(self.prefix_audit.faults(self.store.prefix_by_id(prefix_id)))

    def _frames(self, call: Call) -> None:
        """What the call's frames hold, before it is asked what they may see."""
        self.audit.frames += call.frames
        self.audit.words += call.words.height
        text = call.row["sidecar"]
        permitted = (
            None
            if text is None
            else stored_mask(self.store, read_stored_sidecar(text, call.call_id), call.frames)
        )
        own = call.row["prefix_id"]
        prefix = None if own is None else self.store.prefix_by_id(own)
        _refuse(row_faults(call, prefix, self.store.setting("prefix")))
        _refuse(frame_faults(call, self.text_rules, permitted))
        _refuse(word_faults(call, call.words, self.text_rules))

    def _call_without(self, call_id: str) -> None:
        call = self.store.call(call_id)
        row = call.row
        self._claims(call)
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
        self._claims(call)
        self._frames(call)
        tokens = self._tokens(row["recording_id"])
        if row["recording_starts_at_us"] is None:
            raise CausalityError("it has a recording, but no start on that recording's clock")
        if self._arrived is None or self._arrived[0] != row["recording_id"]:
            self._arrived = row["recording_id"], ArrivedTokens(tokens)
        self._sidecar(row, tokens)
        self._visibility(call, self._arrived[1], row["recording_starts_at_us"])
        self._partner(row)

    def _visibility(self, call: Call, tokens: ArrivedTokens, starts_at_us: int) -> None:
        window = self.store.window
        versions = call.versions
        clock = SessionClock(starts_at_us, 0, call.frames)
        rules: dict[str, Any] = {
            "window": window,
            "call_id": call.call_id,
            "permissions": permissions_of(call.sidecar, starts_at_us),
        }
        self.audit.add(audit_versions(tokens, clock, versions, **rules))
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
            audited = audit_versions(tokens, clock, opening, **rules)
        except CausalityError as error:
            raise CausalityError(f"with its prefix of {prefix} frames: {error.what}") from error
        self.audit.add(audited)

    def _sidecar(self, row: dict[str, Any], tokens: pl.DataFrame | None) -> None:
        if row["sidecar"] is not None:
            self.audit.sidecars += 1
            audit_sidecar(row["sidecar"], tokens, row["recording_starts_at_us"], call_id=row["call_id"])

    def _claims(self, call: Call) -> None:
        self.audit.claims += call.claims.height
        main = (
            None
            if self.store.is_single_stream
            else self.store.setting("text", "main_speaker") or SPEAKER_MAIN
        )
        self.audit.exceptions += [replace(fault, where=call.call_id) for fault in audit_claims(call, main)]

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
        if self._rows[one]["state_width"] == self._rows[other]["state_width"] > 0:
            ours, theirs = (
                (table, self._states(name)) for table, name in zip(tables, (one, other), strict=True)
            )
            audit_twin_states(theirs, ours, fork_us=fork_us, twin=one)
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

    def _pair(self, call_id: str, twin_call_id: str, fork_us: int, fork_frame: int) -> None:
        """What two calls that begin together see before the first frame that can see the fork is equal.

        What their sidecars permit may differ: of a call with a list of permissions, what it could see without one.
        """
        calls = [self.store.call(name) for name in (call_id, twin_call_id)]
        limit = min(fork_frame, *(call.frames for call in calls))
        ours, theirs = (self._seen(call, limit) for call in calls)
        alike = ours.columns
        differing = pl.concat(
            [ours.join(theirs, on=alike, how="anti"), theirs.join(ours, on=alike, how="anti")]
        )
        if differing.height:
            first = differing.sort("start", *_PLACE).row(0, named=True)
            raise CausalityError(
                f"step {first['start']}: request {first['call']}, position {first['position']} (id "
                f"{first['token_id']}) is seen differently by {call_id!r}, whose recording is the same "
                f"until {fork_us} µs, step {fork_frame}"
            )

    def _seen(self, call: Call, limit: int) -> pl.DataFrame:
        """The call's versions before step `limit`, with the places of their tokens instead of rows."""
        assert call.recording_id is not None
        tokens, versions = self._tokens(call.recording_id), call.versions
        if call.permitted is not None and call.recording_starts_at_us is not None:
            clock = SessionClock(call.recording_starts_at_us, 0, call.frames)
            versions = build_versions(tokens, clock, window=self.store.window)
        return (
            versions.filter(pl.col("start") < limit)
            .with_columns(pl.col("end").clip(upper_bound=limit))
            .join(tokens.select("row", *_PLACE), on="row", how="left")
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

    def _states(self, recording_id: str) -> ReadRows:
        row = self._rows[recording_id]
        reader, offset = self.store.states(row["shard"]), row["token_offset"]
        return lambda first, stop: reader.read_rows(offset + first, offset + stop)


def _refuse(faults: Iterable[str]) -> None:
    for what in faults:
        raise CausalityError(what)
