"""Several stores of one recipe become one: shards are linked, tables written anew, and a snapshot lists them.

Resumes as a build does: what each shard is to hold is noted before it is published, `store.json` names the stores that are
joined, and the snapshot comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

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
from inkplex_data.store.describe import PIECES_KEY, STORE_KEY, read_description, write_description
from inkplex_data.store.digests import digest_stored
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
            raise UsageError(
                "is one of the stores to be joined, or in one",
                where=str(store),
                next_step="Choose another -o.",
            )
    with ExitStack() as stack, machine_faults_said(root):
        opened = [stack.enter_context(finished_store(path)) for path in sources]
        opened = in_order(opened)
        refuse_different(opened)
        recipe = stored_recipe(Path(opened[0].root))
        assert recipe is not None
        plan = plan_merge(
            [_tables(one) for one in opened],
            are_parts="part" in opened[0].description,
            seed=recipe.splits.seed,
        )
        merge = _Merge(root, opened, plan, reporter)
        if (root / STORE_KEY).exists():  # so that nothing is touched of a store that is another one
            merge.refuse_other(read_description(root))
        ledger = Ledger(root)
        with ledger.locked():
            merge.go(open_target(root, recipe))
            ledger.remove()
        refusals = Refusals(root)
        refusals.extend(merge.refused)
    return summarise(store, list(plan.calls), gone=(), is_updated=False, refusals=refusals)


@dataclass(frozen=True)
class _Merge:
    root: Path
    stores: Sequence[Store]
    plan: MergePlan
    reporter: Reporter

    def refuse_other(self, described: Mapping[str, Any] | None) -> None:
        """Raise UsageError where the output has a `store.json` that is not of this merge."""
        if described is not None and described.get(MERGED) != self._merged:
            raise UsageError(
                "holds another store, or one that other stores were joined into",
                where=str(self.root),
                next_step="Choose another folder for -o.",
            )

    def go(self, target: Target) -> None:
        self.refuse_other(target.described)
        if target.snapshot is None:
            self._describe()
            self._write(target)
        elif target.lost:
            raise StoreError(
                f"shards are gone or damaged: {shown([ref.key for ref in target.lost])}",
                where=str(self.root),
                next_step="Restore them from a copy, or join the stores into another folder.",
            )
        # One that was added to since has its own refusals.
        if target.snapshot is None or target.snapshot.number == 1:
            publish_snapshot(self.root, refused=self.refused)

    @cached_property
    def refused(self) -> list[Problem]:
        """What the sources refused, and what cannot be in one store, as one build would list it."""
        found = [problem for store in self.stores for problem in store.snapshot.refused]
        kept = (problem for problem in (*found, *self.plan.refused) if problem.call_id not in self.plan.calls)
        return sorted(dict.fromkeys(kept), key=lambda problem: problem.call_id)

    @cached_property
    def _merged(self) -> list[str]:
        keys = [(store.files, snapshot_key(store.snapshot.number)) for store in self.stores]
        return [digest_stored(files, key).sha256 for files, key in keys]

    def _describe(self) -> None:
        """`store.json`: what the stores have in common, and which they are."""
        described: dict[str, Any] = {}
        for store in self.stores:
            described |= {
                name: value for name, value in store.description.items() if described.get(name) is None
            }
        described.pop("part", None)
        files = LocalFiles(self.root)
        pieces = next(
            (found for store in self.stores if (found := store.files.read(PIECES_KEY)) is not None), None
        )
        if pieces is not None:
            files.write(PIECES_KEY, pieces)
        write_description(self.root, {**described, MERGED: self._merged})

    def _write(self, target: Target) -> None:
        copies = [Copies(store) for store in self.stores]
        rows = [
            {row["prefix_id"]: row for row in store.catalog.frame("prefixes").iter_rows(named=True)}
            for store in self.stores
        ]
        write_prefixes(
            target, [copies[place].prefix(rows[place][name]) for place, name in self.plan.prefixes]
        )
        for kind in ("recordings", "calls"):
            listed = [
                (place, ref)
                for place, store in enumerate(self.stores)
                for ref in store.snapshot.of_kind(kind)
            ]
            self.reporter.stage(f"merge {kind}", len(listed), unit="shards")
            for shard, (place, ref) in enumerate(listed):
                write = self._write_recordings if kind == "recordings" else self._write_calls
                write(target, shard, ref, place, copies[place])
                self.reporter.advance(f"merge {kind}")
            target.drop_beyond(kind, len(listed) - 1)

    def _write_recordings(
        self, target: Target, shard: int, ref: ShardRef, place: int, copies: Copies
    ) -> None:
        store = self.stores[place]
        info = listed_shard(store.files, ref)
        before = stored_table(store, info, "recordings").read()
        kept = [name for name in before["recording_id"] if self.plan.recording_of[name] == place]
        new = {name: self.plan.recording_ix[name] for name in kept}
        stamp_ = stamp([ref.sha256, list(new.items())])
        if target.is_published("recordings", shard, stamp_):
            return
        target.note("recordings", shard, stamp_)
        if len(kept) < before.height:
            table = store.catalog.frame("recordings")
            rows = table.filter(pl.col("recording_id").is_in(kept), pl.col("shard") == ref.shard).iter_rows(
                named=True
            )
            members = [copies.recording({**row, "recording_ix": new[row["recording_id"]]}) for row in rows]
            if members:
                write_recording_shard(target, shard, members)
            return
        ix = dict(zip(before["recording_ix"], new.values(), strict=True))
        rows_now = before.with_columns(
            pl.lit(shard, pl.Int32).alias("shard"),
            pl.Series("recording_ix", list(new.values()), before.schema["recording_ix"]),
        )
        tables = {"recordings": NewTable(before.schema, [rows_now])}
        if any(old != now for old, now in ix.items()):
            tables |= renumbered(store, info, "tokens", "recording_ix", ix)
        write_linked_shard(self.root, shard, store, info, tables)

    def _write_calls(self, target: Target, shard: int, ref: ShardRef, place: int, copies: Copies) -> None:
        store = self.stores[place]
        info = listed_shard(store.files, ref)
        before = stored_table(store, info, "calls").read()
        new = {name: self.plan.calls[name] for name in before["call_id"] if name in self.plan.calls}
        if len(new) < before.height:
            rows = store.catalog.frame("calls").filter(pl.col("shard") == ref.shard).iter_rows(named=True)
            write_call_shard(
                target,
                shard,
                [_member(copies, row, new[row["call_id"]]) for row in rows if row["call_id"] in new],
            )
            return
        stamp_ = stamp([ref.sha256, [[name, asdict(settled)] for name, settled in new.items()]])
        if target.is_published("calls", shard, stamp_):
            return
        target.note("calls", shard, stamp_)
        write_linked_shard(self.root, shard, store, info, _call_tables(store, info, before, shard, new))


def _call_tables(
    store: Store, info: Any, before: pl.DataFrame, shard: int, new: Mapping[str, Settled]
) -> dict[str, NewTable]:
    """What differs in a shard whose calls all stay."""
    now = before.with_columns(
        pl.lit(shard, pl.Int32).alias("shard"),
        pl.Series("call_ix", [one.call_ix for one in new.values()], pl.Int64),
        pl.Series("family", [one.family for one in new.values()], pl.String),
        pl.Series("prefix_id", [one.prefix_id for one in new.values()], pl.String),
        pl.Series("wrong_memory_of", [one.partner for one in new.values()], pl.String),
    )
    if any(one.reason for one in new.values()):
        reasons = pl.Series("reason", [one.reason for one in new.values()], pl.String)
        known = pl.col("family_reason") if "family_reason" in before.columns else pl.lit(None, pl.String)
        now = now.with_columns(
            pl.concat_str([known, reasons], separator="; ", ignore_nulls=True).alias("family_reason")
        )
        now = now.with_columns(pl.col("family_reason").replace("", None))
    tables = {"calls": NewTable(now.schema, [now])}
    ix = dict(zip(before["call_ix"], now["call_ix"], strict=True))
    if any(old != number for old, number in ix.items()):
        for name in _NUMBERED:
            tables |= renumbered(store, info, name, "call_ix", ix)
    notes = [note for one in new.values() for note in one.notes]
    if notes:
        table = stored_table(store, info, "problems")
        tables["problems"] = NewTable(table.schema, [pl.concat([table.read(), problem_table(notes)])])
    return tables


def _member(copies: Copies, row: Mapping[str, Any], settled: Settled) -> CallMember:
    """A call that leaves its shard because another call of it is refused."""
    reasons = [reason for reason in (row.get("family_reason"), settled.reason) if reason]
    now = {
        **row,
        "call_ix": settled.call_ix,
        "family": settled.family,
        "family_reason": "; ".join(reasons) or None,
    }
    member = copies.call(now, prefix_id=settled.prefix_id, partner=settled.partner, notes=None)

    def part() -> Any:
        made = member.part()
        return replace(made, problems=[*made.problems, *settled.notes])

    return replace(member, stamp=stamp(member.stamp, asdict(settled)), part=part)


def _tables(store: Store) -> SourceTables:
    calls = store.catalog.frame("calls")
    absent = [pl.lit(None).alias(name) for name in COMPARED if name not in calls.columns]
    identity = pl.col("sidecar").str.json_path_match("$.identity").alias("identity")
    return SourceTables(
        store.root,
        calls.with_columns(absent).select(*COMPARED, identity),
        store.catalog.frame("recordings"),
        store.catalog.frame("prefixes"),
    )
