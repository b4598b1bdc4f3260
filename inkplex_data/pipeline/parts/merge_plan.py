"""What becomes of calls, recordings and prefixes when stores are joined. Pure: a function of their tables.

All that a build decides over its whole corpus is decided again: numbers, partners, and whether families lie in one split.
What was decided within a part by its own calls alone, the voice of a prefix, stays.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from inkplex_data.corpus.families.joined import Joined, Link, family_links, join_families, marks_of
from inkplex_data.corpus.sidecars.sidecar_models import Identity
from inkplex_data.errors import StoreError
from inkplex_data.memory.partners import Candidate, PartnerRings
from inkplex_data.memory.twins import root_of
from inkplex_data.pipeline.planning.prefix_voices import VoiceSample
from inkplex_data.pipeline.planning.same_audio import audio_in_two_families, recordings_in_two_families
from inkplex_data.plural import shown
from inkplex_data.problems import Problem

COMPARED: Final = (
    "call_id",
    "call_ix",
    "family",
    "split",
    "prefix_id",
    "audio_sha256",
    "exchanged_sha256",
    "audio_fingerprint",
    "recording_id",
)
"""Columns of the calls table that the plan reads, beside the sidecar's identity."""


@dataclass(frozen=True)
class SourceTables:
    """The index tables of one store. `calls` has at least COMPARED and `identity`, JSON text or null."""

    name: str
    calls: pl.DataFrame
    recordings: pl.DataFrame
    prefixes: pl.DataFrame


@dataclass(frozen=True)
class Settled:
    """What a call is in the joined store. `reason`: why it is of another family than before, None where it is not.
    `notes`: what is to be said of the call."""

    call_ix: int
    family: str
    partner: str | None
    prefix_id: str | None
    reason: str | None = None
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class MergePlan:
    """`calls`: those that stay, by id. `recording_ix`: per recording its new number; `recording_of`: the source, by
    place, that gives it. `prefixes`: (source, prefix id) in order. `refused`: calls that are left out, and why."""

    calls: Mapping[str, Settled]
    recording_ix: Mapping[str, int]
    recording_of: Mapping[str, int]
    prefixes: Sequence[tuple[int, str]]
    refused: Sequence[Problem]


def plan_merge(sources: Sequence[SourceTables], *, are_parts: bool, seed: int) -> MergePlan:
    """Join the tables of `sources`. `are_parts`: their `call_ix` are places in one corpus, whose order is kept; else calls
    follow each other in the order of the sources. `seed`: of the recipe's splits.

    Of two calls that must not both be there the later one is refused, as in a build of all of them.
    Raises StoreError for a call that two sources have, and for families and twins in different splits.
    """
    return _Merge(sources, are_parts, seed).plan()


@dataclass
class _Merge:
    sources: Sequence[SourceTables]
    are_parts: bool
    seed: int
    refused: dict[str, Problem] = field(default_factory=dict)

    def plan(self) -> MergePlan:
        rows = [
            {**row, "source": place, "before": row["family"]}
            for place, source in enumerate(self.sources)
            for row in source.calls.iter_rows(named=True)
        ]
        rows.sort(
            key=lambda row: (
                (row["call_ix"], row["source"]) if self.are_parts else (row["source"], row["call_ix"])
            )
        )
        self._refuse_twice(rows)
        splits = self._splits(rows)
        reasons: dict[str, str] = {}
        rows = self._joined(rows, splits, self._related(rows), "family-contradicts", reasons)
        rows = self._without_shared_audio(rows)
        rows = self._joined(rows, splits, self._same_recordings(rows), "audio-in-two-families", reasons)
        recording_of = self._recordings(rows)
        rows = [row for row in rows if row["call_id"] not in self.refused]
        branches = {
            one: (source, at_us)
            for tables in self.sources
            for one, source, at_us in tables.recordings.select("recording_id", "branch_of", "branch_at_us")
            .drop_nulls()
            .iter_rows()
        }
        self._refuse_divided_twins(rows, branches)
        voiced = self._cut_from_refused()
        rings = PartnerRings(
            [Candidate(row["call_id"], row["family"], row["split"], row["recording_id"]) for row in rows],
            seed=self.seed,
            branches=branches,
        )
        return MergePlan(
            calls={
                row["call_id"]: _settled(ix, row, rings.partner(row["call_id"]), reasons, voiced)
                for ix, row in enumerate(rows)
            },
            recording_ix=self._recording_ix(rows, recording_of),
            recording_of=recording_of,
            prefixes=self._prefixes(voiced),
            refused=list(self.refused.values()),
        )

    def _refuse_twice(self, rows: Iterable[Mapping[str, Any]]) -> None:
        owners: dict[str, int] = {}
        twice = [
            f"{row['call_id']} ({self._name(owners[row['call_id']])}, {self._name(row['source'])})"
            for row in rows
            if owners.setdefault(row["call_id"], row["source"]) != row["source"]
        ]
        if twice:
            raise StoreError(
                f"calls are in two of the stores: {shown(twice)}",
                next_step="Give each call an id of its own, or leave one of the stores out.",
            )

    def _splits(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Family → split."""
        found: dict[str, tuple[str, int]] = {}
        for row in rows:
            split, source = found.setdefault(row["family"], (row["split"], row["source"]))
            if split != row["split"]:
                raise StoreError(
                    f"family {row['family']!r} is in two splits: {split} in {self._name(source)}, {row['split']} in "
                    f"{self._name(row['source'])}",
                    next_step="Give it one `split` in the corpus, and build the store of one of them with --update.",
                )
        return {family: split for family, (split, _) in found.items()}

    def _related(self, rows: Iterable[Mapping[str, Any]]) -> list[Link]:
        return family_links(
            (row["call_id"], row["family"], marks_of(Identity.model_validate_json(row["identity"])))
            for row in rows
            if row["identity"] is not None
        )

    def _same_recordings(self, rows: Iterable[Mapping[str, Any]]) -> list[Link]:
        heard = [(row["call_id"], row["audio_fingerprint"], row["family"]) for row in rows]
        return [
            Link(call_id, family, owner, owner_family, "the same recording, coded otherwise,")
            for call_id, (owner, owner_family, family) in recordings_in_two_families(
                one for one in heard if one[1] is not None
            ).items()
        ]

    def _joined(
        self,
        rows: list[dict[str, Any]],
        splits: Mapping[str, str],
        links: Iterable[Link],
        code: str,
        reasons: dict[str, str],
    ) -> list[dict[str, Any]]:
        joined: Joined = join_families(links, frozen=(), given=splits)
        for call_id, what in joined.refused.items():
            self._refuse(call_id, code, what)
        reasons |= joined.why
        return [
            {**row, "family": joined.part_of.get(row["family"], row["family"])}
            for row in rows
            if row["call_id"] not in self.refused
        ]

    def _without_shared_audio(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Stores of earlier builds do not say what a call's audio is with its channels exchanged.
        turned = {
            row["audio_sha256"]: row["exchanged_sha256"]
            for row in rows
            if row["exchanged_sha256"] is not None
        }
        calls = [(row["call_id"], row["audio_sha256"], row["family"]) for row in rows]
        found = audio_in_two_families(calls, exchanged=turned)
        for call_id, (owner, owner_family, family) in found.items():
            what = f"has the same audio as call {owner!r} of family {owner_family!r}, and is of family {family!r}"
            self._refuse(call_id, "audio-in-two-families", what)
        return [row for row in rows if row["call_id"] not in self.refused]

    def _recordings(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
        """The source that gives each recording; equal bytes under one id are one, others refuse the later calls."""
        owners: dict[str, tuple[int, str]] = {}
        other: dict[tuple[int, str], int] = {}
        for place, source in enumerate(self.sources):
            for recording_id, sha256 in source.recordings.select(
                "recording_id", "content_sha256"
            ).iter_rows():
                owner, own = owners.setdefault(recording_id, (place, sha256))
                if own != sha256:
                    other[place, recording_id] = owner
        for row in rows:
            if (holder := other.get((row["source"], row["recording_id"]))) is not None:
                what = f"its recording {row['recording_id']!r} differs from the one with that id in {self._name(holder)}"
                self._refuse(row["call_id"], "recording-id-twice", what)
        return {recording_id: owner for recording_id, (owner, _) in owners.items()}

    def _refuse_divided_twins(
        self, rows: Iterable[Mapping[str, Any]], branches: Mapping[str, tuple[str, int]]
    ) -> None:
        """Twins tell one story up to their fork: they lie in one split, which a part alone could not know of."""
        first: dict[str, Mapping[str, Any]] = {}
        for row in rows:
            if row["recording_id"] is None:
                continue
            other = first.setdefault(root_of(branches, row["recording_id"]), row)
            if other["split"] != row["split"]:
                raise StoreError(
                    f"families {other['family']!r} ({other['split']}) and {row['family']!r} ({row['split']}) have twin "
                    f"recordings, {other['recording_id']!r} and {row['recording_id']!r}",
                    next_step="Give both one `family` or `split` in the corpus, and build the parts again.",
                )

    def _recording_ix(self, rows: Iterable[Mapping[str, Any]], owners: Mapping[str, int]) -> dict[str, int]:
        """Numbers in the order of the first calls, states of one width together, as a build gives them."""
        used = {row["recording_id"]: None for row in rows if row["recording_id"] is not None}
        rest = {
            one: None
            for source in self.sources
            for one in source.recordings["recording_id"]
            if one not in used
        }
        widths = {
            one: width
            for place, source in enumerate(self.sources)
            for one, width in source.recordings.select("recording_id", "state_width").iter_rows()
            if owners[one] == place
        }
        by_width: dict[int, list[str]] = {}
        for one in (*used, *rest):
            by_width.setdefault(widths[one], []).append(one)
        return {one: ix for ix, one in enumerate(one for ones in by_width.values() for one in ones)}

    def _cut_from_refused(self) -> dict[str, str]:
        """Prefix → the call, left out now, that its voice was cut from: the sound may be in another split."""
        found = {}
        for source in self.sources:
            voices = source.prefixes.select("prefix_id", "voice", "split", "voice_source").drop_nulls(
                "voice_source"
            )
            for name, voice, split, where in voices.iter_rows():
                call_id = VoiceSample.of_description(voice, split, where).call_id
                if call_id in self.refused:
                    found[name] = call_id
        return found

    def _prefixes(self, left_out: Container[str]) -> list[tuple[int, str]]:
        """Each prefix once: those of calls first, then those of the recipe's voices, as a build has them."""
        first: dict[str, tuple[int, str]] = {}
        voices: dict[str, str] = {}
        for place, source in enumerate(self.sources):
            for name, voice, where in source.prefixes.select(
                "prefix_id", "voice", "voice_source"
            ).iter_rows():
                if name in left_out:
                    continue
                first.setdefault(name, (place, name))
                if where is not None and where.startswith("file:"):
                    voices[name] = voice
        return sorted(first.values(), key=lambda one: (one[1] in voices, voices.get(one[1], "")))

    def _refuse(self, call_id: str, code: str, what: str) -> None:
        self.refused.setdefault(call_id, Problem.of(code, call_id, what))

    def _name(self, source: int) -> str:
        return self.sources[source].name


def _settled(
    ix: int,
    row: Mapping[str, Any],
    partner: str | None,
    reasons: Mapping[str, str],
    cut_from: Mapping[str, str],
) -> Settled:
    call_id, family, prefix_id = row["call_id"], row["family"], row["prefix_id"]
    notes, reason = [], None
    if family != row["before"]:
        reason = reasons[row["before"]]
        what = f"its family {row['before']!r} is part of family {family!r}: {reason}"
        notes.append(Problem.of("family-joined", call_id, what))
    if prefix_id in cut_from:
        what = f"its prefix had its voice from {cut_from[prefix_id]!r}, which is left out, and is left out with it"
        notes.append(Problem.of("prefix-no-voice", call_id, what))
        prefix_id = None
    return Settled(ix, family, partner, prefix_id, reason, tuple(notes))
