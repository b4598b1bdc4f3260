"""What is audited in one go, and a log by which an audit that was stopped goes on. Planning is pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from inkplex_data.audit.audit_totals import StoreAudit
from inkplex_data.errors import UsageError
from inkplex_data.memory.twins import twin_recordings
from inkplex_data.store.snapshot import Snapshot

_CALLS: Final = 64
"""Calls without memory that are audited in one go."""
_SCHEMA: Final = "inkplex/audit@1"


@dataclass(frozen=True)
class AuditUnit:
    """One go: prefixes, which are compared with each other; a recording with the calls over it, which read the same
    tokens; or two twins with the pairs of calls over them."""

    prefixes: tuple[str, ...] = ()
    recording: str | None = None
    calls: tuple[str, ...] = ()
    twins: tuple[str, str, int] | None = None
    """Two recordings, and the µs of their fork."""
    pairs: tuple[tuple[str, str, int, int], ...] = ()
    """Two calls that begin together, the µs of the fork, and the first frame that sees it."""

    def __len__(self) -> int:
        return (
            len(self.prefixes) + (self.recording is not None) + len(self.calls) + (self.twins is not None)
        ) + len(self.pairs)

    @property
    def name(self) -> str:
        """For progress."""
        return self.recording or next(iter((*self.calls, *self.prefixes, *(self.twins or ())[:2])), "")


def plan_audit(
    calls: pl.DataFrame,
    *,
    recordings: Collection[str],
    prefixes: Collection[str],
    branches: Mapping[str, tuple[str, int]],
    pairs: pl.DataFrame,
    chosen: Collection[str] | None = None,
) -> Iterator[AuditUnit]:
    """The units of a store, or of `chosen` calls and what they rest on.

    `calls`: call_id, recording_id and prefix_id; `pairs`: `memory.twins.PAIRS`.
    """
    if chosen is not None:
        calls = calls.filter(pl.col("call_id").is_in(list(chosen)))
        used = set(calls["prefix_id"].drop_nulls())
        prefixes = [prefix for prefix in prefixes if prefix in used]
    read = calls["recording_id"].drop_nulls().unique().to_list() if chosen is not None else recordings
    if prefixes:
        yield AuditUnit(prefixes=tuple(prefixes))
    groups = calls.partition_by("recording_id", as_dict=True, maintain_order=True)
    by_recording = {key[0]: group["call_id"].to_list() for key, group in groups.items()}
    for recording in (one for one in recordings if one in set(read)):
        yield AuditUnit(recording=recording, calls=tuple(by_recording.pop(recording, ())))
    # Left are calls without a recording, and those whose recording is lost.
    for ids in by_recording.values():
        for first in range(0, len(ids), _CALLS):
            yield AuditUnit(calls=tuple(ids[first : first + _CALLS]))
    together = pairs.filter("same_start")
    for one, other, fork_us in twin_recordings(branches, recordings):
        if not {one, other} & set(read):
            continue
        ends = pl.col("recording_id", "twin_recording_id")
        own = together.filter(pl.any_horizontal(ends == one) & pl.any_horizontal(ends == other))
        if chosen is not None:
            own = own.filter(pl.any_horizontal(pl.col("call_id", "twin_call_id").is_in(list(chosen))))
        shown = own.select("call_id", "twin_call_id", "fork_us", "fork_frame").rows()
        yield AuditUnit(twins=(one, other, fork_us), pairs=tuple(shown))


class AuditLog:
    """A file of JSON lines: which snapshot is audited, then what each unit gave."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        """Go on with `path`, or begin it. Raises UsageError where it is of another snapshot or no such log."""
        self._path = path
        self.known: dict[str, StoreAudit] = {}
        header = {"schema": _SCHEMA, "snapshot": hashlib.sha256(snapshot.document()).hexdigest()}
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        if not any(lines):
            path.write_text(json.dumps(header) + "\n", encoding="utf-8")
            return
        # What was being written when an audit was stopped ends without a line break, and is done again.
        *whole, rest = lines
        if not whole or _parsed(whole[0]) != header:
            raise UsageError(
                "is not the log of an audit of this snapshot",
                where=str(path),
                next_step="Remove it, or name another file.",
            )
        for line in whole[1:]:
            entry = _parsed(line) or {}
            # What another version noted says nothing here: the unit is audited again.
            with suppress(KeyError, TypeError):
                self.known[entry["unit"]] = StoreAudit.of_json(entry["found"])
        if rest:
            path.write_bytes(b"\n".join(whole) + b"\n")

    def note(self, unit: AuditUnit, found: StoreAudit) -> None:
        """Write down what a unit gave."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"unit": unit_key(unit), "found": asdict(found)}) + "\n")


def unit_key(unit: AuditUnit) -> str:
    """The unit as text."""
    return json.dumps(asdict(unit))


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
