"""Parts of a call as calls of their own. Listing them is here; `export.crop_call` makes their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inkplex_data.clock import US_PER_S
from inkplex_data.corpus.entry import CallEntry, Clip
from inkplex_data.problems import Problem, refusal


def clip_name(call_id: str, clip: Clip) -> str:
    """`CALL~3.2-10.4`: the call and the part of it in seconds, exact to the microsecond."""
    return f"{call_id}~{_seconds(clip.start_us)}-{_seconds(clip.end_us)}"


def part_of(entry: CallEntry, clip: Clip) -> CallEntry:
    """One part of a call. It keeps the call's family, so that no two parts are ever in two splits, and begins as much
    later on the session clock."""
    return replace(
        entry,
        call_id=clip_name(entry.call_id, clip),
        recording_starts_at_us=entry.recording_starts_at_us + clip.start_us if entry.recording else 0,
        duration_s=(clip.end_us - clip.start_us) / US_PER_S,
        clips=(),
        clip=clip,
    )


def with_clips(entries: Sequence[CallEntry]) -> tuple[list[CallEntry], list[Problem]]:
    """The calls to build: in the place of each that names clips, those. A part whose id is taken is left out, with a
    problem."""
    taken = {entry.call_id for entry in entries if not entry.clips}
    kept, problems = [], []
    for entry in entries:
        for part in [part_of(entry, clip) for clip in entry.clips] or [entry]:
            if entry.clips and part.call_id in taken:
                error = refusal("duplicate-id", f"{part.call_id!r} is the id of another call", entry.where)
                problems.append(Problem.of_refusal(f"{part.call_id} ({entry.where})", error))
                continue
            taken.add(part.call_id)
            kept.append(part)
    return kept, problems


def _seconds(us: int) -> str:
    whole, part = divmod(us, US_PER_S)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")
