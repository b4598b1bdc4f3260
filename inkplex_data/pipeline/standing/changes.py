"""What a corpus has become since a store was built from it: calls that are new, changed, or gone, each by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.errors import StoreError, UsageError
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.standing.file_digests import FileDigests
from inkplex_data.pipeline.standing.inputs import call_inputs, differing, files_of, recording_differs
from inkplex_data.pipeline.target import Target
from inkplex_data.plural import counted, shown
from inkplex_data.problems import Problem


@dataclass(frozen=True)
class Changes:
    """`new`: calls to build that the store does not hold, in corpus order. `changed`: published calls → what differs.
    `gone`: published calls that the corpus no longer has, each with the code of the problem that hides it, or ""."""

    new: tuple[CallEntry, ...] = ()
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Changed and gone calls by name, as a sentence's beginning."""
        changed = [f"{call_id} ({', '.join(parts)})" for call_id, parts in self.changed.items()]
        gone = [f"{call_id} ({code})" if code else call_id for call_id, code in self.gone.items()]
        parts = []
        if changed:
            verb = "differs" if len(changed) == 1 else "differ"
            parts.append(f"{counted(len(changed), 'call')} {verb} from what was published: {shown(changed)}")
        if gone:
            verb = "is" if len(gone) == 1 else "are"
            parts.append(f"{counted(len(gone), 'published call')} {verb} not in the corpus: {shown(gone)}")
        return "; ".join(parts)


def find_changes(
    entries: Sequence[CallEntry],
    problems: Iterable[Problem],
    target: Target,
    digests: FileDigests,
    *,
    has_memory: bool,
) -> Changes:
    """Compare a corpus, `entries` and the `problems` of its listing, with what `target` holds.

    `has_memory`: whether the recipe reads recordings.
    Calls that were published by a version that kept no digests count as unchanged. Raises OSError for a file that
    is there and cannot be read.
    """
    published = {row["call_id"]: row for row in target.calls.iter_rows(named=True)}
    present = {entry.call_id: CallInput.of(entry) for entry in entries}
    known = {call_id: given for call_id, given in present.items() if call_id in published}
    recordings = {row["recording_id"]: row.get("files") for row in target.recordings.iter_rows(named=True)}
    if known:
        digests.look(_files(known.values()))
    changed = {}
    for call_id, given in known.items():
        row = published[call_id]
        if row.get("inputs") is None:
            continue
        parts = differing(row["inputs"], call_inputs(given.entry, given.turns, digests))
        if has_memory and _has_other_recording(row, given.entry, recordings, digests):
            parts = (*parts, "recording")
        if parts:
            changed[call_id] = parts
    faulty = {problem.call_id: problem.code for problem in problems if problem.severity == "error"}
    return Changes(
        tuple(entry for entry in entries if entry.call_id not in published),
        changed,
        {call_id: faulty.get(call_id, "") for call_id in published if call_id not in present},
    )


def refuse_unasked(changes: Changes, target: Target, *, add: bool) -> None:
    """What a build without `update` does not do by itself.

    Raises UsageError for calls that changed, that are gone (unless others are only to be added), and for new ones
    without `add`; StoreError for lost shards of which nothing says what they held.
    """
    where = str(target.root)
    if target.unknown:
        keys = shown([ref.key for ref in target.unknown])
        raise StoreError(
            f"{keys}: gone or damaged, and the tables beside it do not say what it held",
            where=where,
            next_step="Restore it from a copy, or use --update, which builds the calls that no shard holds.",
        )
    unasked = Changes(
        changed=changes.changed, gone={} if add and not _needed(changes, target) else changes.gone
    )
    if text := unasked.text():
        raise UsageError(
            text,
            where=where,
            next_step="Use --update to publish a new snapshot of what the corpus is now; older ones stay.",
        )
    new = [entry.call_id for entry in changes.new if entry.call_id not in target.refused]
    if target.snapshot and new and not add:
        verb = "is" if len(new) == 1 else "are"
        raise UsageError(
            f"{counted(len(new), 'call')} of the corpus {verb} not in this store: {shown(new)}",
            where=where,
            next_step="Use --add to publish them as a new snapshot, or --restart to start again.",
        )


def _needed(changes: Changes, target: Target) -> bool:
    """Whether a lost shard cannot be made again without calls that are gone."""
    return bool(target.lost and changes.gone)


def _files(calls: Iterable[CallInput]) -> Iterator[Path]:
    for given in calls:
        for paths in files_of(given.entry, given.turns).values():
            yield from paths
        if given.entry.recording is not None:
            yield given.entry.recording


def _has_other_recording(
    row: Mapping[str, Any], entry: CallEntry, recordings: Mapping[str, str | None], digests: FileDigests
) -> bool:
    if row["recording_id"] is None or entry.recording is None:
        return row["recording_id"] is not None or entry.recording is not None
    files = recordings.get(row["recording_id"])
    return files is not None and recording_differs(files, entry.recording, digests)
