"""What a recipe makes of a call before it is looked at: two streams from one channel, the agent's channel where the
corpus does not name it, words where none are given.

Everything after this sees a call whose channels are named, with a transcript.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inkplex_data.audio.files.audio_source import open_audio
from inkplex_data.corpus.call_words import needs_words
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.transcripts import SpeakerRule
from inkplex_data.pipeline.calls import spoken_words, two_streams
from inkplex_data.pipeline.calls.agent_side import AGENT_SIDE, AgentSideJob
from inkplex_data.pipeline.calls.speaker_rule import speaker_rule
from inkplex_data.pipeline.calls.spoken_words import SPOKEN_WORDS, SpokenWordsJob
from inkplex_data.pipeline.calls.two_streams import TWO_STREAMS, TwoStreamsJob
from inkplex_data.pipeline.stage import Build
from inkplex_data.problems import Problem
from inkplex_data.speech.agent.find import decide

PREPARING: Final = (TWO_STREAMS, AGENT_SIDE, SPOKEN_WORDS)
"""The stages that `prepare_call` may ask."""
PREPARE_KEYS: Final = ("audio.agent", "audio.mono", "text.main_speaker", "words.agent", "words.source")
"""The recipe keys that it reads itself."""


@dataclass(frozen=True)
class CallFiles:
    """A call of the corpus with what else lies beside it. `turns`: an RTTM file of the audio's own name."""

    entry: CallEntry
    turns: Path | None

    @classmethod
    def of(cls, entry: CallEntry) -> CallFiles:
        """Look for the turns beside a call of one file."""
        path = entry.audio.with_suffix(".rttm") if isinstance(entry.audio, Path) else None
        return cls(entry, path if path is not None and path.is_file() else None)


@dataclass(frozen=True)
class Prepared:
    """The call with what was made for it, what there is to say about that, and whose words its labels are."""

    entry: CallEntry
    notes: tuple[Problem, ...]
    rule: SpeakerRule


def prepare_call(files: CallFiles, build: Build) -> Prepared:
    """The same files at every asking, made at the first.

    Raises CallRefused (what decoding, `divide`, `decide` and `align_entry` raise), MissingLibraryError.
    """
    entry, recipe = files.entry, build.recipe
    notes: list[Problem] = []
    listens = recipe.words.source == "whisper" and not _has_words(entry)
    if recipe.audio.mono == "diarize" and _is_mono(entry):
        entry = _divided(entry, files.turns, build, notes)
    elif recipe.audio.agent != "auto":
        entry = decide(entry, recipe.audio.agent, rule=speaker_rule(entry, recipe)).entry
    else:
        found = AGENT_SIDE.do(AgentSideJob(build=build, entry=entry, transcribe=listens))
        notes += found.notes
        if found.channels is not None:
            entry = dataclasses.replace(entry, channels=found.channels, channels_assumed=False)
    rule = speaker_rule(entry, recipe)
    if listens:
        from inkplex_data.speech.align.align_corpus import known_text

        job = SpokenWordsJob(build=build, entry=_audible(entry), text=known_text(entry), rule=rule)
        notes += SPOKEN_WORDS.do(job).notes
        entry = dataclasses.replace(entry, words=SPOKEN_WORDS.folder(job) / spoken_words.WORDS)
        # Words that were heard have their labels already.
        rule = SpeakerRule(main=recipe.text.main_speaker)
    return Prepared(entry, tuple(notes), rule)


def _is_mono(entry: CallEntry) -> bool:
    """A one-channel file whose channels nobody named."""
    named = entry.channels is not None and not entry.channels_assumed
    return isinstance(entry.audio, Path) and not named and open_audio(entry.audio).channels == 1


def _divided(entry: CallEntry, turns: Path | None, build: Build, notes: list[Problem]) -> CallEntry:
    assert isinstance(entry.audio, Path)
    job = TwoStreamsJob(
        build=build,
        call_id=entry.call_id,
        audio=entry.audio,
        sidecar=entry.sidecar,
        turns=turns,
        swapped=entry.swapped,
        source=entry.source,
    )
    notes += TWO_STREAMS.do(job).notes
    folder = TWO_STREAMS.folder(job)
    return dataclasses.replace(entry, audio=folder / two_streams.AUDIO, sidecar=folder / two_streams.SIDECAR)


def _audible(entry: CallEntry) -> CallEntry:
    """The entry without what no sound depends on, so that another family or role costs no listening."""
    return dataclasses.replace(
        entry,
        words=None,
        sidecar=None,
        recording=None,
        recording_starts_at_us=0,
        family="",
        split=None,
        role=None,
        voice=None,
        text_conditions=None,
        duration_s=None,
    )


def _has_words(entry: CallEntry) -> bool:
    if not needs_words(entry.words):
        return True
    sidecar = read_sidecar(entry.sidecar) if entry.sidecar is not None else None
    return sidecar is not None and sidecar.words is not None and bool(sidecar.words.items)
