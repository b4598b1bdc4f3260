"""Which calls are one family, whatever they call it: those of one source, conversation or reference. Pure.

A family lies in one split, so that no call of the test set tells what a training call has told (seeds/000, "Keep all
forks … from one original source family in its assigned split").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from inkplex_data.corpus.sidecars.sidecar_models import Identity

Relative = tuple[str, str, Collection[str]]
"""A call's id, its family, and what it may have in common with others."""


@dataclass(frozen=True)
class Link:
    """A call has something in common, `what`, with an earlier call of another family."""

    call_id: str
    family: str
    owner: str
    owner_family: str
    what: str

    @property
    def reason(self) -> str:
        return f"call {self.call_id!r} has {self.what} as call {self.owner!r} of family {self.owner_family!r}"


@dataclass(frozen=True)
class Joined:
    """`part_of`: families that became part of another, by name; `why`: their reasons; `refused`: calls that cannot be
    in the family they belong to, with why not."""

    part_of: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def marks_of(identity: Identity) -> tuple[str, ...]:
    """What makes calls one family that have it in common, as words that follow "has the same"."""
    named = {"source_id": identity.source_id, "conversation_id": identity.conversation_id}
    hashes = [reference.sha256 for reference in identity.references if reference.sha256 is not None]
    return (
        *(f"{name} {value!r}" for name, value in named.items() if value is not None),
        *(f"reference {sha256[:16]}" for sha256 in dict.fromkeys(hashes)),
    )


def family_links(calls: Iterable[Relative], published: Iterable[Relative] = ()) -> list[Link]:
    """One link for each mark that a call shares with the first one to have it, where the two differ in family.

    Published calls count as earlier; nothing is said of two of those, whose families stand.
    """
    owners: dict[str, tuple[str, str]] = {}
    for call_id, family, marks in published:
        for mark in marks:
            owners.setdefault(mark, (call_id, family))
    links = []
    for call_id, family, marks in calls:
        for mark in marks:
            owner, owner_family = owners.setdefault(mark, (call_id, family))
            if owner_family != family:
                links.append(Link(call_id, family, owner, owner_family, f"the same {mark}"))
    return links


def join_families(
    links: Iterable[Link],
    *,
    frozen: Collection[str],
    given: Mapping[str, str],
    together: Iterable[Collection[str]] = (),
) -> Joined:
    """Make one family of those that links connect, however long the way.

    `frozen`: published families, which keep their name; `given`: family → split, where the corpus or the store says
    one; `together`: families that lie in one split and keep their names. Of two families the earlier gives its name. A
    call whose link would bring two splits together is refused, and the link does not count.
    """
    part_of: dict[str, str] = {}
    why: dict[str, str] = {}
    refused: dict[str, str] = {}
    splits = _Splits(given)
    for families in together:
        for one, other in pairwise(sorted(families)):
            splits.unite(one, other)

    def root(family: str) -> str:
        while family in part_of:
            family = part_of[family]
        return family

    for link in links:
        stays, goes = root(link.owner_family), root(link.family)
        if stays == goes:
            continue
        if not splits.unite(stays, goes):
            refused[link.call_id] = (
                f"has {link.what} as call {link.owner!r} of family {link.owner_family!r}, is of family {link.family!r}, "
                "and the families are in different splits"
            )
            continue
        if goes in frozen:
            stays, goes = goes, stays
        if goes in frozen:
            continue  # both are published, in one split
        part_of[goes] = stays
        why[goes] = link.reason
    return Joined({family: root(family) for family in part_of}, why, refused)


class _Splits:
    """Families that lie in one split, and which it is as far as anything says so."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._part_of: dict[str, str] = {}
        self._split = dict(given)

    def unite(self, one: str, other: str) -> bool:
        """Put two into one split; False where they are in different ones."""
        first, second = self._root(one), self._root(other)
        if first == second:
            return True
        known = {self._split[family] for family in (first, second) if family in self._split}
        if len(known) > 1:
            return False
        self._part_of[second] = first
        self._split |= dict.fromkeys((first,), *known) if known else {}
        return True

    def _root(self, family: str) -> str:
        while family in self._part_of:
            family = self._part_of[family]
        return family
