"""The part of a call that the corpus names (`clips`), as files of its own: everything after this sees an ordinary call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inkplex_data.corpus.entry import CallEntry
from inkplex_data.export.crop_call import crop_call
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.problems import Problem, ProblemLog


@dataclass(frozen=True, kw_only=True)
class ClipJob(Job):
    """One part to cut out. `turns`: an RTTM file of the whole call."""

    entry: CallEntry
    turns: Path | None

    @property
    def key(self) -> str:
        return self.entry.call_id


@dataclass(frozen=True)
class ClipFiles:
    """What there is to say about the cut; the files lie beside it in the result's folder."""

    notes: tuple[Problem, ...]


def cut_clip(job: ClipJob, folder: Path) -> ClipFiles:
    """Write the part's files. Raises CallRefused as `crop_call` does."""
    log = ProblemLog(job.entry.call_id, strict=job.recipe.strict)
    crop_call(job.entry, folder, log, turns=job.turns)
    return ClipFiles(tuple(log))


CLIP: Final = Stage(name="clips", version=1, result=ClipFiles, run=cut_clip, recipe=("strict",))
