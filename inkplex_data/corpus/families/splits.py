"""Which split a family belongs to: frozen, stated, or drawn from a seeded hash of its name. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.fields import read_model
from inkplex_data.corpus.models import SplitsFile
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.faults import FaultError

DEFAULT_FRACTIONS: Mapping[str, float] = {"validation": 0.05, "test": 0.05}


def assign_splits(
    families: Iterable[str],
    frozen: Mapping[str, str],
    fractions: Mapping[str, float] = DEFAULT_FRACTIONS,
    seed: int = 0,
    *,
    given: Mapping[str, str] | None = None,
    together: Iterable[Collection[str]] = (),
) -> dict[str, str]:
    """Split of every family, sorted by name.

    A frozen family keeps its split, whatever `given` (from the corpus) says. A
    family that neither names is drawn from a hash of seed and name, so that other families coming or
    going never move it. Families of one set in `together` (`linked_families`) get one split: that of a
    frozen or given member, else the one drawn for the set's first name.

    Raises UsageError for fractions that leave nothing to train on, and for a set in `together` whose
    frozen or given members lie in different splits.
    """
    if any(value < 0 for value in fractions.values()) or sum(fractions.values()) >= 1:
        raise UsageError(f"fractions must be at least 0 and sum to less than 1, got {dict(fractions)}")
    fixed = {**(given or {}), **frozen}
    leaders = _leaders(together)
    by_leader: dict[str, tuple[str, str]] = {}
    for family in sorted(fixed):
        leader = leaders.get(family, family)
        other, split = by_leader.setdefault(leader, (family, fixed[family]))
        if split != fixed[family]:
            raise UsageError(
                f"families {other!r} ({split}) and {family!r} ({fixed[family]}) share a recording, source or conversation",
                next_step="Such calls belong in one split; correct `split` or `family`.",
            )
    assigned = {}
    for family in sorted(set(families)):
        leader = leaders.get(family, family)
        settled = by_leader.get(leader)
        assigned[family] = settled[1] if settled else _drawn(leader, fractions, seed)
    return assigned


def given_splits(entries: Iterable[CallEntry]) -> dict[str, str]:
    """Splits that the corpus itself states, by family; `read_corpus` has made them agree."""
    return {entry.family: entry.split for entry in entries if entry.split is not None}


def linked_families(entries: Iterable[CallEntry]) -> list[set[str]]:
    """Sets of two or more families whose calls read one recording, which must not straddle splits."""
    by_recording: dict[Path, set[str]] = {}
    for entry in entries:
        if entry.recording is not None:
            by_recording.setdefault(entry.recording.resolve(), set()).add(entry.family)
    return [families for families in by_recording.values() if len(families) > 1]


def read_splits(path: Path) -> SplitsFile:
    """A splits file. Raises ConfigError naming every fault."""
    try:
        return read_model(path, SplitsFile)
    except FaultError as error:
        faults = [str(fault) for fault in error.faults]
        raise ConfigError("is not a splits file", where=str(path), faults=faults) from error


def _drawn(name: str, fractions: Mapping[str, float], seed: int) -> str:
    digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    for split in sorted(fractions):
        place -= fractions[split]
        if place < 0:
            return split
    return "train"


def _leaders(together: Iterable[Collection[str]]) -> dict[str, str]:
    """The first name of the set that each family ends up in once overlapping sets are joined."""
    groups: dict[str, set[str]] = {}
    for names in together:
        joined = set(names)
        for name in names:
            joined |= groups.get(name, set())
        for name in joined:
            groups[name] = joined
    return {name: min(members) for name, members in groups.items()}
