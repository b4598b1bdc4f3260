"""Which channel of a call is the agent's, where the corpus does not say and the recipe asks for a guess."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inkplex_data.audio.call_audio import CallFiles
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import ChannelSpec
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.problems import Problem, ProblemLog
from inkplex_data.speech.agent.find import Hear, decide


@dataclass(frozen=True, kw_only=True)
class AgentSideJob(Job):
    """One call whose sides are to be told. `transcribe`: Whisper hears the beginnings where the rest leaves doubt."""

    text: CallText
    files: CallFiles = field(compare=False)
    transcribe: bool

    @property
    def key(self) -> str:
        return self.text.entry.call_id


@dataclass(frozen=True)
class AgentSide:
    """The channels as they are named from here on; None where the call has not exactly two in one file."""

    channels: ChannelSpec | None
    notes: tuple[Problem, ...]


def guess_side(job: AgentSideJob, folder: Path) -> AgentSide:
    """Guess and keep it. Raises CallRefused as `decide` does."""
    entry = job.text.entry
    found = decide(
        entry,
        "auto",
        files=job.files,
        text=job.text,
        threshold=job.recipe.audio.agent_confidence,
        hear=_hear(job) if job.transcribe else None,
    )
    log = ProblemLog(entry.call_id)
    if found.guess is not None:
        log.add("agent-guessed", found.guess.text(), item=entry.source)
    return AgentSide(found.entry.channels, tuple(log))


def _hear(job: AgentSideJob) -> Hear:
    words = job.recipe.words
    model = words.whisper
    assert isinstance(model, str)  # `choose_whisper` has left one
    return lambda samples: tools.aligner(model, words.aligner, words.language, job.device).text(samples)


AGENT_SIDE: Final = Stage(
    name="agent-side",
    version=4,
    result=AgentSide,
    run=guess_side,
    recipe=(
        "audio.agent_confidence",
        "device",
        "words.aligner",
        "words.language",
        "words.whisper",
    ),
    needs_device=True,
)
