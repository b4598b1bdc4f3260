"""Several stores of one recipe become one: shards are linked, tables written anew, and a snapshot lists them.

Resumes as a build does: what each shard is to hold is noted before it is published, `store.json` names the stores that are
joined, and the snapshot comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from inkplex_data.config.recipe import Recipe
from inkplex_data.errors import StoreError, UsageError
from inkplex_data.machine import machine_faults_said
from inkplex_data.output_path import output_path
from inkplex_data.pipeline.ledger import Ledger
from inkplex_data.pipeline.outcome import Refusals, Summary, summarise
from inkplex_data.pipeline.parts.joinable import finished_store, in_order, refuse_different
from inkplex_data.pipeline.parts.linked_shard import NewTable, renumbered, stored_table, write_linked_shard
from inkplex_data.pipeline.parts.merge_plan import COMPARED, MergePlan, Settled, SourceTables, plan_merge
from inkplex_data.pipeline.progress import Reporter, SilentReporter
from inkplex_data.pipeline.shards import CallMember, write_call_shard, write_prefixes, write_recording_shard
from inkplex_data.pipeline.stamp import stamp
from inkplex_data.pipeline.standing.copied_members import Copies
from inkplex_data.pipeline.target import Target, open_target, refuse_foreign, stored_recipe
from inkplex_data.plural import shown
from inkplex_data.problems import Problem
from inkplex_data.store.describe import PIECES_KEY, write_description
from inkplex_data.store.digests import FileDigest
from inkplex_data.store.files import LocalFiles
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import Store
from inkplex_data.store.shard import problem_table
from inkplex_data.store.snapshot import ShardRef, listed_shard, snapshot_key

_NUMBERED: Final = ("words", "versions", "evidence", "claims")
"""Tables of a calls shard that have `call_ix`."""
MERGED: Final = "merged"
"""What `store.json` says of the stores that were joined: the SHA-256 of the snapshot of each."""


def merge_stores(sources: Sequence[Path], store: Path, *, reporter: Reporter | None = None) -> Summary:
    """Join finished local stores into a new one at `store`, going on where an earlier run stopped.

    The parts of a corpus (`build --part`) become what one build of it gives, but for what docs/how-to/scale.md names.
    Raises UsageError for stores that are no finished ones, for parts that are not all there or of different corpora, and
    for an output that is something else; ConfigError for stores of different recipes or tools, naming what differs;
    StoreError as `plan_merge` does, and while another process writes `store`; MachineFault as builds do.
    """
    reporter = reporter or SilentReporter()
    root = output_path(store)
    refuse_foreign(root)
    for path in sources:
        if root.resolve().is_relative_to(path.resolve()) or path.resolve().is_relative_to(root.resolve()):
            raise UsageError("is one of the stores to be joined, or in one", where=str(store), next_step="Choose another -o.")
    with ExitStack() as stack, machine_faults_said(root):
        opened = [stack.enter_context(finished_store(path)) for path in sources]
        opened = in_order(opened)
        refuse_different(opened)
        recipe = next(recipe for path in sources if (recipe := stored_recipe(path)) is not None)
        ledger = Ledger(root)
        with ledger.locked():
            merge = _Merge(open_target(root, recipe), opened, recipe, reporter)
            plan = merge.go()
            ledger.remove()
    refusals = Refusals(root)
    refusals.extend(merge.refused(plan))
    return summarise(store, list(plan.calls), gone=(), is_updated=False, refusals=refusals)


@dataclass(frozen=True)
class _Merge:
    target: Target
    stores: Sequence[Store]
    recipe: Recipe
    reporter: Reporter

    def go(self) -> MergePlan:
        target = self.target
        merged = [_snapshot_sha256(store) for store in self.stores]
        if target.described is not None and target.described.get(MERGED) != merged:
            raise UsageError(
                "holds another store, or one that other stores were joined into",
                where=str(target.root),
                next_step="Choose another folder for -o.",
            )
        plan = plan_merge(
            [_tables(store) for store in self.stores],
            are_parts="part" in self.stores[0].description,
            seed=self.recipe.splits.seed,
        )
        if target.snapshot is None:
            self._describe(merged)
            self._write(plan)
        elif target.lost:
            raise StoreError(
                f"shards are gone or damaged: {shown([ref.key for ref in target.lost])}",
                where=str(target.root),
                next_step="Restore them from a copy, or join the stores into another folder.",
            )
        if target.snapshot is None or target.snapshot.number == 1:
            publish_snapshot(target.root, refused=self.refused(plan))
        return plan

    def refused(self, plan: MergePlan) -> list[Problem]:
        """What the sources refused, and what cannot be in one store, as one build would list it."""
        found = [problem for store in self.stores for problem in store.snapshot.refused]
        kept = (problem for problem in (*found, *plan.refused) if problem.call_id not in plan.calls)
        return sorted(dict.fromkeys(kept), key=lambda problem: problem.call_id)

    def _describe(self, merged: Sequence[str]) -> None:
        """`store.json`: what the stores have in common, and which they are."""
        described: dict[str, Any] = {}
        for store in self.stores:
            described |= {name: value for name, value in store.description.items() if described.get(name) is None}
        described.pop("part", None)
        files = LocalFiles(self.target.root)
        pieces = next((found for store in self.stores if (found := store.files.read(PIECES_KEY)) is not None), None)
        if pieces is not None:
            files.write(PIECES_KEY, pieces)
        write_description(self.target.root, {**described, MERGED: list(merged)})

    def _write(self, plan: MergePlan) -> None:
        copies = [Copies(store) for store in self.stores]
        rows = [
            {row["prefix_id"]: row for row in store.catalog.frame("prefixes").iter_rows(named=True)}
            for store in self.stores
        ]
        write_prefixes(self.target, [copies[place].prefix(rows[place][name]) for place, name in plan.prefixes])
        for kind in ("recordings", "calls"):
            listed = [(place, ref) for place, store in enumerate(self.stores) for ref in store.snapshot.of_kind(kind)]
            self.reporter.stage(f"merge {kind}", len(listed), unit="shards")
            for shard, (place, ref) in enumerate(listed):
                write = self._write_recordings if kind == "recordings" else self._write_calls
                write(plan, shard, ref, copies[place], place)
                self.reporter.advance(f"merge {kind}")
            self.target.drop_beyond(kind, len(listed) - 1)

    def _write_recordings(
        self, plan: MergePlan, shard: int, ref: ShardRef, copies: Copies, place: int
    ) -> None:
        store = self.stores[place]
        info = listed_shard(store.files, ref)
        before = stored_table(store, info, "recordings").read()
        kept = [name for name in before["recording_id"] if plan.recording_of[name] == place]
        new = {name: plan.recording_ix[name] for name in kept}
        stamp_ = stamp([ref.sha256, list(new.items())])
        if self.target.is_published("recordings", shard, stamp_):
            return
        self.target.note("recordings", shard, stamp_)
        if len(kept) < before.height:
            table = store.catalog.frame("recordings")
            rows = table.filter(pl.col("recording_id").is_in(kept), pl.col("shard") == ref.shard).iter_rows(named=True)
            members = [copies.recording({**row, "recording_ix": new[row["recording_id"]]}) for row in rows]
            if members:
                write_recording_shard(self.target, shard, members)
            return
        ix = dict(zip(before["recording_ix"], new.values(), strict=True))
        rows_now = before.with_columns(
            pl.lit(shard, pl.Int32).alias("shard"),
            pl.Series("recording_ix", list(new.values()), before.schema["recording_ix"]),
        )
        tables = {"recordings": NewTable(before.schema, [rows_now])}
        if any(old != now for old, now in ix.items()):
            tables |= renumbered(store, info, "tokens", "recording_ix", ix)
        write_linked_shard(self.target.root, shard, store, info, tables)

    def _write_calls(
        self, plan: MergePlan, shard: int, ref: ShardRef, copies: Copies, place: int
    ) -> None:
        store = self.stores[place]
        info = listed_shard(store.files, ref)
        before = stored_table(store, info, "calls").read()
        new = {name: plan.calls[name] for name in before["call_id"] if name in plan.calls}
        if len(new) < before.height:
            rows = store.catalog.frame("calls").filter(pl.col("shard") == ref.shard).iter_rows(named=True)
            write_call_shard(
                self.target, shard, [_member(copies, row, new[row["call_id"]]) for row in rows if row["call_id"] in new]
            )
            return
        stamp_ = stamp([ref.sha256, [[name, asdict(settled)] for name, settled in new.items()]])
        if self.target.is_published("calls", shard, stamp_):
            return
        self.target.note("calls", shard, stamp_)
        write_linked_shard(self.target.root, shard, store, info, _call_tables(store, info, before, shard, new))


def _call_tables(
    store: Store, info: Any, before: pl.DataFrame, shard: int, new: Mapping[str, Settled]
) -> dict[str, NewTable]:
    """What differs in a shard whose calls all stay."""
    now = before.with_columns(
        pl.lit(shard, pl.Int32).alias("shard"),
        pl.Series("call_ix", [one.call_ix for one in new.values()], pl.Int64),
        pl.Series("family", [one.family for one in new.values()], pl.String),
        pl.Series("wrong_memory_of", [one.partner for one in new.values()], pl.String),
    )
    if any(one.reason for one in new.values()):
        reasons = pl.Series("reason", [one.reason for one in new.values()], pl.String)
        known = pl.col("family_reason") if "family_reason" in before.columns else pl.lit(None, pl.String)
        now = now.with_columns(pl.concat_str([known, reasons], separator="; ", ignore_nulls=True).alias("family_reason"))
        now = now.with_columns(pl.col("family_reason").replace("", None))
    tables = {"calls": NewTable(now.schema, [now])}
    ix = dict(zip(before["call_ix"], now["call_ix"], strict=True))
    if any(old != number for old, number in ix.items()):
        for name in _NUMBERED:
            tables |= renumbered(store, info, name, "call_ix", ix)
    notes = [one.note for one in new.values() if one.note is not None]
    if notes:
        table = stored_table(store, info, "problems")
        tables["problems"] = NewTable(table.schema, [pl.concat([table.read(), problem_table(notes)])])
    return tables


def _member(copies: Copies, row: Mapping[str, Any], settled: Settled) -> CallMember:
    """A call that leaves its shard because another call of it is refused."""
    reasons = [reason for reason in (row.get("family_reason"), settled.reason) if reason]
    now = {**row, "call_ix": settled.call_ix, "family": settled.family, "family_reason": "; ".join(reasons) or None}
    member = copies.call(now, prefix_id=row["prefix_id"], partner=settled.partner, notes=None)
    notes = [settled.note] if settled.note is not None else []

    def part() -> Any:
        made = member.part()
        return replace(made, problems=[*made.problems, *notes])

    return replace(member, stamp=stamp(member.stamp, asdict(settled)), part=part)


def _tables(store: Store) -> SourceTables:
    calls = store.catalog.frame("calls")
    absent = [pl.lit(None, pl.Binary).alias(name) for name in COMPARED if name not in calls.columns]
    identity = pl.col("sidecar").str.json_path_match("$.identity").alias("identity")
    return SourceTables(
        store.root,
        calls.with_columns(absent).select(*COMPARED, identity),
        store.catalog.frame("recordings"),
        store.catalog.frame("prefixes"),
    )


def _snapshot_sha256(store: Store) -> str:
    return FileDigest.of(store.files.read(snapshot_key(store.snapshot.number)) or b"").sha256

