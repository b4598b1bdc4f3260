"""What is made of a call before it is looked at: the part of it that the corpus names, two streams from one channel, the agent's channel where the
corpus does not name it, words where none are given.

Everything after this sees a call whose channels are named, with a transcript.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inkplex_data.audio.call_audio import CallAudio, CallFiles, ChannelRef, open_files
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.export.crop_call import cropped_entry
from inkplex_data.pipeline.calls import spoken_words, two_streams
from inkplex_data.pipeline.calls.agent_side import AGENT_SIDE, AgentSideJob
from inkplex_data.pipeline.calls.clip_files import CLIP, ClipJob
from inkplex_data.pipeline.calls.spoken_words import SPOKEN_WORDS, SpokenWordsJob
from inkplex_data.pipeline.calls.two_streams import TWO_STREAMS, TwoStreamsJob
from inkplex_data.pipeline.stage import Build
from inkplex_data.problems import Problem
from inkplex_data.speech.agent.find import decide

PREPARING: Final = (CLIP, TWO_STREAMS, AGENT_SIDE, SPOKEN_WORDS)
"""The stages that `prepare_call` may ask."""
PREPARE_KEYS: Final = (
    "audio.agent",
    "audio.mono",
    "audio.streams",
    "text.main_speaker",
    "words.agent",
    "words.source",
)
"""The recipe keys that it reads itself."""


@dataclass(frozen=True)
class CallInput:
    """A call of the corpus with what else lies beside it. `turns`: an RTTM file of the audio's own name."""

    entry: CallEntry
    turns: Path | None

    @classmethod
    def of(cls, entry: CallEntry) -> CallInput:
        """Look for the turns beside a call of one file."""
        path = entry.audio.with_suffix(".rttm") if isinstance(entry.audio, Path) else None
        return cls(entry, path if path is not None and path.is_file() else None)


@dataclass(frozen=True)
class PreparedCall:
    """What the call says, with what was made for it, its opened audio, and what there is to say about that.

    `is_divided`: its two channels were made of one, and are not those of the corpus's file.
    """

    text: CallText
    audio: CallAudio
    notes: tuple[Problem, ...]
    is_divided: bool = False

    @property
    def entry(self) -> CallEntry:
        return self.text.entry


def main_speaker(recipe: Recipe) -> str | None:
    """The label of the words that go into the text stream; None for everybody's, in a single stream."""
    return None if recipe.audio.streams == "single" else recipe.text.main_speaker


def prepare_call(given: CallInput, build: Build) -> PreparedCall:
    """The same files at every asking, made at the first.

    Raises CallRefused (what opening, decoding, `divide`, `decide` and `align_entry` raise), MissingLibraryError.
    """
    recipe = build.recipe
    notes: list[Problem] = []
    if given.entry.clip is not None:
        given = _clipped(given, build, notes)
    text = CallText.of(given.entry, agent=recipe.words.agent, main=main_speaker(recipe))
    is_divided = False
    listens = recipe.words.source == "whisper" and not text.has_words
    files = open_files(text.entry.audio)
    if recipe.audio.streams == "single":
        pass  # nobody's side is looked for
    elif recipe.audio.mono == "diarize" and _is_mono(text.entry, files):
        text, is_divided = _divided(text, files, given.turns, build, notes), True
        files = open_files(text.entry.audio)
    elif recipe.audio.agent != "auto":
        text = text.moved_to(decide(text.entry, recipe.audio.agent, files=files, text=text).entry)
    else:
        found = AGENT_SIDE.do(AgentSideJob(build=build, text=text, files=files, transcribe=listens))
        notes += found.notes
        if found.channels is not None:
            text = text.moved_to(
                dataclasses.replace(text.entry, channels=found.channels, channels_assumed=False)
            )
    open_voices = files.single if recipe.audio.streams == "single" else files.channels
    audio = open_voices(text.entry.channels)
    if listens:
        text = _heard(text, audio, build, notes)
    return PreparedCall(text, audio, tuple(notes), is_divided)


def _clipped(given: CallInput, build: Build, notes: list[Problem]) -> CallInput:
    job = ClipJob(build=build, entry=given.entry, turns=given.turns)
    notes += CLIP.do(job).notes
    return CallInput.of(cropped_entry(given.entry, CLIP.folder(job)))


def _is_mono(entry: CallEntry, files: CallFiles) -> bool:
    """A one-channel file whose channels nobody named."""
    named = entry.channels is not None and not entry.channels_assumed
    return isinstance(entry.audio, Path) and not named and files.agent.channels == 1


def _divided(
    text: CallText, files: CallFiles, turns: Path | None, build: Build, notes: list[Problem]
) -> CallText:
    entry = text.entry
    assert isinstance(entry.audio, Path)
    job = TwoStreamsJob(
        build=build,
        call_id=entry.call_id,
        audio=entry.audio,
        channel=ChannelRef(files.agent),
        sidecar=entry.sidecar,
        turns=turns,
        swapped=entry.swapped,
        source=entry.source,
    )
    notes += TWO_STREAMS.do(job).notes
    folder = TWO_STREAMS.folder(job)
    return text.moved_to(
        dataclasses.replace(entry, audio=folder / two_streams.AUDIO, sidecar=folder / two_streams.SIDECAR)
    )


def _heard(text: CallText, audio: CallAudio, build: Build, notes: list[Problem]) -> CallText:
    from inkplex_data.speech.align.align_corpus import known_text

    # Without what no sound depends on, so that another family or role costs no listening.
    audible = dataclasses.replace(
        text.entry,
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
        named=(),
    )
    job = SpokenWordsJob(build=build, entry=audible, audio=audio, text=known_text(text.entry), rule=text.rule)
    notes += SPOKEN_WORDS.do(job).notes
    return text.with_made_words(SPOKEN_WORDS.folder(job) / spoken_words.WORDS)
