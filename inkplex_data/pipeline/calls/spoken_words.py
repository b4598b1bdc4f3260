"""The words of a call that brings none: transcribed, and timed by their sound."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inkplex_data.audio.call_audio import CallAudio
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.transcripts import SpeakerRule
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.stage import Job, Stage
from inkplex_data.problems import Problem, ProblemLog

WORDS: Final = "words.json"


@dataclass(frozen=True, kw_only=True)
class SpokenWordsJob(Job):
    """One call to listen to. `text`: what is said, where captions or plain text tell; `rule` finds the agent in them."""

    entry: CallEntry
    audio: CallAudio = field(compare=False)
    text: Path | None
    rule: SpeakerRule

    @property
    def key(self) -> str:
        return self.entry.call_id


@dataclass(frozen=True)
class SpokenWords:
    """What there is to say about the words; they are a transcript named WORDS in the result's folder."""

    notes: tuple[Problem, ...]


def hear_words(job: SpokenWordsJob, folder: Path) -> SpokenWords:
    """Write the transcript. Raises CallRefused as `align_entry` does, CheckpointError, MissingLibraryError."""
    from inkplex_data.speech.align.align_corpus import align_entry, write_words

    settings = job.recipe.words
    assert isinstance(settings.whisper, str)  # `choose_whisper` has left one
    aligner = tools.aligner(settings.whisper, settings.aligner, settings.language, job.device)
    log = ProblemLog(job.entry.call_id, strict=job.recipe.strict)
    write_words(
        folder / WORDS, align_entry(job.entry, aligner, log, rule=job.rule, text=job.text, audio=job.audio)
    )
    return SpokenWords(tuple(log))


SPOKEN_WORDS: Final = Stage(
    name="spoken-words",
    version=4,
    result=SpokenWords,
    run=hear_words,
    recipe=("device", "strict", "words.aligner", "words.language", "words.whisper"),
    needs_device=True,
)
