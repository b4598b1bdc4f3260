"""A one-channel call divided into two streams by who speaks, before anything looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inkplex_data.audio.call_audio import ChannelRef
from inkplex_data.corpus import swap
from inkplex_data.corpus.sidecars.sidecar import read_sidecar, with_constructed_sides
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.problems import Problem, ProblemLog

AUDIO: Final = "call.wav"
SIDECAR: Final = "call.sidecar.json"


@dataclass(frozen=True, kw_only=True)
class TwoStreamsJob(Job):
    """One channel to divide. `turns`: an RTTM file that says who speaks when; a diarizer finds it out otherwise."""

    call_id: str
    audio: Path
    channel: ChannelRef = field(compare=False)
    sidecar: Path | None
    turns: Path | None
    swapped: bool
    source: str

    @property
    def key(self) -> str:
        return self.call_id


@dataclass(frozen=True)
class DividedCall:
    """What there is to say about the division; AUDIO and SIDECAR lie beside it in the result's folder."""

    notes: tuple[Problem, ...]


def divide_call(job: TwoStreamsJob, folder: Path) -> DividedCall:
    """Write the two streams and their sidecar. Raises CallRefused as `divide` does, MissingLibraryError."""
    from inkplex_data.speech.diarize.divide import divide

    settings = job.recipe.audio
    log = ProblemLog(job.call_id, strict=job.recipe.strict)
    made = divide(
        job.channel,
        (folder / AUDIO).with_suffix(""),
        diarizer=None if job.turns else tools.diarizer(settings.diarizer, settings.speakers, job.device),
        rttm=job.turns,
        # A call and its exchanged twin hold one sound, so `random` has to choose alike.
        call_id=job.call_id.removesuffix(swap.SUFFIX) if job.swapped else job.call_id,
        main=settings.main_speaker,
        inactive=settings.inactive,
        seed=settings.seed,
        log=log,
    )
    if job.sidecar is not None:
        told = with_constructed_sides(read_sidecar(job.sidecar), read_sidecar(made.sidecar))
        text = told.model_dump_json(by_alias=True, exclude_none=True)
        made.sidecar.write_text(text, encoding="utf-8")
    overlap_us = int((made.streams.overlap[:, 1] - made.streams.overlap[:, 0]).sum())
    log.add(
        "streams-constructed",
        f"{len({turn.speaker for turn in made.turns})} speakers by "
        f"{settings.diarizer if job.turns is None else job.turns.name}, main speaker "
        f"{made.streams.main}, {overlap_us} µs of overlap",
        item=job.source,
    )
    return DividedCall(tuple(log))


TWO_STREAMS: Final = Stage(
    name="two-streams",
    version=5,
    result=DividedCall,
    run=divide_call,
    recipe=(
        "audio.diarizer",
        "audio.inactive",
        "audio.main_speaker",
        "audio.seed",
        "audio.speakers",
        "device",
        "strict",
    ),
    needs_device=True,
)
