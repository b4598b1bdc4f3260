"""The cases of a store: each call with a result, and every branch of it, with the evidence and the answer that is due.

What a result carries is read off the tokens that its sidecar's updates name; a call without a sidecar has as evidence
the tool results of its recording. What the caller has said and the role prompt are given from the start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import polars as pl

from inkplex_data.audio.turns import units
from inkplex_data.corpus.sidecars.claims import Said
from inkplex_data.memory.branches import DERIVED, NEVER_US, fork_frame, twin_kind
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store
from inkplex_data.trainer.evaluate.scoring import calls_with_states
from inkplex_data.trainer.grounding.claims.carried import Item, Status
from inkplex_data.trainer.grounding.due_answers import Due, due_answers

RESULTS: Final = ("tool_result", "tool_error")
ALWAYS_US: Final = -NEVER_US
"""Arrival of what was there before the call."""
TURN_SILENCE_US: Final = 400_000
DELAY_US: Final = 2_000_000
"""By how much a delayed result comes later."""


@dataclass(frozen=True)
class Branch:
    """One branch of a case. items: evidence on the call's clock. due: what is to be said, and on which evidence.

    source: the call whose memory and caller are read from the fork on: the call itself, or its twin.
    """

    kind: str
    source: Call
    items: tuple[Item, ...]
    due: tuple[Due, ...]
    delay_us: int = 0
    derived: bool = True

    @property
    def name(self) -> str:
        return self.kind if self.derived else f"{self.kind} ({self.source.call_id})"


@dataclass(frozen=True)
class Case:
    """A call whose first result arrives at session time `fork_us`; no frame below `fork_frame` can know it."""

    call: Call
    fork_us: int
    branches: tuple[Branch, ...]

    @property
    def starts_at_us(self) -> int:
        starts_at_us = self.call.recording_starts_at_us
        assert starts_at_us is not None
        return starts_at_us

    @property
    def fork_frame(self) -> int:
        return fork_frame(self.fork_us, self.starts_at_us)

    @cached_property
    def family(self) -> str:
        return str(self.call.row["family"])


def cases_of(
    store: Store, split: str, *, calls: Collection[str] | None = None, delay_us: int = DELAY_US
) -> Iterator[Case]:
    """Every case of a split, or of `calls` in it, by name; twins are branches of each other, within the split."""
    table = store.calls().filter(pl.col("split") == split).collect()
    table = table.filter(pl.col("call_id").is_in(calls_with_states(store)))
    names = sorted(table["call_id"])
    pairs = store.pairs().collect()
    pairs = pairs.filter(pl.col("call_id").is_in(names), pl.col("twin_call_id").is_in(names))
    for name in names:
        if calls is not None and name not in calls:
            continue
        case = case_of(store, store.call(name), _twins(store, pairs, name), delay_us=delay_us)
        if case is not None:
            yield case


def _twins(store: Store, pairs: pl.DataFrame, name: str) -> list[tuple[Call, int]]:
    """The twins of a call, and the session time of each fork."""
    found = []
    for row in pairs.iter_rows(named=True):
        if name in (row["call_id"], row["twin_call_id"]):
            other = row["twin_call_id"] if row["call_id"] == name else row["call_id"]
            found.append((store.call(other), int(row["fork_us"])))
    return found


def case_of(
    store: Store, call: Call, twins: Sequence[tuple[Call, int]] = (), *, delay_us: int = DELAY_US
) -> Case | None:
    """The case of one call; None where no result arrives during it. All branches part at the first result."""
    starts_at_us = call.recording_starts_at_us
    if starts_at_us is None:
        return None
    items = evidence_items(store, call)
    coming = [
        item.arrival_us
        for item in items
        if not item.given and item.status != "pending" and item.arrival_us > 0
    ]
    if not coming:
        return None
    at_us = min([*coming, *(fork_us - starts_at_us for _, fork_us in twins)])
    due = due_answers(agent_words(call), items, since_us=at_us)
    branches = []
    for kind in DERIVED:
        if kind == "irrelevant" and call.row["wrong_memory_of"] is None:
            continue  # nobody's tokens to put there
        shift_us = {"unchanged": 0, "delayed": delay_us}.get(kind, NEVER_US)
        shifted = tuple(_later(item, at_us, shift_us) for item in items)
        own = (
            due
            if kind == "unchanged"
            else tuple(replace(one, arrival_us=one.arrival_us + shift_us) for one in due)
        )
        branches.append(Branch(kind, call, shifted, own if shift_us < NEVER_US else (), shift_us))
    for twin, _ in twins:
        branches.append(_twin_branch(store, call, twin, at_us))
    return Case(call, starts_at_us + at_us, tuple(branches))


def _later(item: Item, at_us: int, shift_us: int) -> Item:
    if item.given or item.arrival_us < at_us:
        return item
    ends_us = None if item.ends_us is None else item.ends_us + shift_us
    return replace(item, arrival_us=item.arrival_us + shift_us, ends_us=ends_us)


def _twin_branch(store: Store, call: Call, twin: Call, at_us: int) -> Branch:
    """A twin's evidence at this call's own moments: sessions that are one until the fork share a clock."""
    shift_us = (twin.recording_starts_at_us or 0) - (call.recording_starts_at_us or 0)
    own = evidence_items(store, twin)
    due = due_answers(agent_words(twin), own, since_us=at_us - shift_us)
    kind = twin_kind(call.evidence, twin.evidence, at_us)
    return Branch(
        kind,
        twin,
        tuple(item if item.arrival_us == ALWAYS_US else _moved(item, shift_us) for item in own),
        tuple(replace(one, arrival_us=one.arrival_us + shift_us) for one in due),
        derived=False,
    )


def _moved(item: Item, shift_us: int) -> Item:
    ends_us = None if item.ends_us is None else item.ends_us + shift_us
    return replace(item, arrival_us=item.arrival_us + shift_us, ends_us=ends_us)


def evidence_items(store: Store, call: Call) -> list[Item]:
    """All that a call's agent can rest on, in order of arrival; times on the call's clock."""
    results = _sidecar_items(call) if call.evidence.height else _recorded_items(call)
    given = list(_caller_items(call))
    prefix_id = call.row["prefix_id"]
    role = None if prefix_id is None else store.prefix_by_id(prefix_id).row.get("role")
    if role:
        given.append(Item("role", str(role), ALWAYS_US, given=True))
    return sorted([*given, *results], key=lambda item: item.arrival_us)


def agent_words(call: Call) -> list[Said]:
    """The agent's words of a call with their starts in µs."""
    own = call.words.filter(pl.col("speaker").is_in(_agent_labels(call))).sort("start_us")
    return [(start_us, text) for start_us, text in own.select("start_us", "text").iter_rows()]


def _agent_labels(call: Call) -> list[str]:
    return call.words.filter(pl.col("frame") >= 0)["speaker"].unique().to_list()


def _caller_items(call: Call) -> Iterator[Item]:
    """What the caller has said, a stretch of speech at a time, known once it is over."""
    words = call.words.filter(~pl.col("speaker").is_in(_agent_labels(call))).sort("start_us")
    stretches = units(words.select("start_us", "end_us").to_numpy(), silence_us=TURN_SILENCE_US)
    for start_us, end_us in stretches.tolist():
        own = words.filter(pl.col("start_us").is_between(start_us, end_us, closed="left"))
        yield Item(f"caller at {start_us / 1e6:.2f} s", " ".join(own["text"]), end_us, given=True)


def _sidecar_items(call: Call) -> Iterator[Item]:
    texts = _evidence_texts(call)
    for row in call.evidence.iter_rows(named=True):
        if row["kind"] == "statement":
            status: Status = "succeeded"
        elif row["kind"] == "tool_error" or row["status"] == "failed":
            status = "failed"
        else:
            status = "pending" if row["kind"] == "tool_call" or row["status"] == "pending" else "succeeded"
        yield Item(
            row["evidence_id"],
            texts.get(row["evidence_id"], ""),
            row["arrival_us"],
            row["superseded_us"],
            status,
            given=row["kind"] == "statement",
        )


def _evidence_texts(call: Call) -> dict[str, str]:
    """Evidence id → what the tokens of its updates spell."""
    sidecar = call.sidecar
    updates = sidecar.private_updates.updates if sidecar is not None and sidecar.private_updates else []
    spelled = call.tokens["bytes"].fill_null(b"")
    found: dict[str, str] = {}
    for update in updates:
        text = b"".join(spelled[update.rows[0] : update.rows[1]].to_list()).decode("utf-8", "replace")
        for name in update.source_events or ():
            found[name] = found.get(name, "") + text
    return found


def _recorded_items(call: Call) -> Iterator[Item]:
    """The tool results of a recording, one a request, and its tool calls, which wait for them."""
    starts_at_us = call.recording_starts_at_us or 0
    tokens = call.tokens.filter(pl.col("kind").is_in(["tool_result", "tool_call"])).with_columns(
        pl.col("kind").cast(pl.String), pl.col("bytes").fill_null(b"")
    )
    for (request, kind), rows in tokens.group_by("call", "kind", maintain_order=True):
        text = b"".join(rows.sort("position")["bytes"].to_list()).decode("utf-8", "replace")
        arrival_us = int(rows["arrival_us"].max()) - starts_at_us  # type: ignore[arg-type]
        yield Item(
            f"request-{request}.{kind}",
            text,
            arrival_us,
            status="pending" if kind == "tool_call" else "succeeded",
        )
