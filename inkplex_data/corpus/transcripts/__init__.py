"""Readers of word timings, one module a format, found by content. A new format is a new file here.

The module sets `FORMAT = TranscriptFormat(…)`, or a tuple of them; nothing else needs to know of it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import replace
from functools import cache
from pathlib import Path

from inkplex_data.corpus.transcripts.speakers import DEFAULT_RULE, SpeakerRule, map_speakers
from inkplex_data.corpus.transcripts.transcript import (
    NOT_JSON,
    Content,
    Segment,
    Transcript,
    TranscriptFormat,
)
from inkplex_data.corpus.word_repair import TimedWord, repair_words
from inkplex_data.errors import CorpusError
from inkplex_data.printable import in_unicode, is_unicode
from inkplex_data.problems import ProblemLog, refusal
from inkplex_data.reading import read_bounded

__all__ = [
    "NOT_JSON",
    "Content",
    "Segment",
    "SpeakerRule",
    "Transcript",
    "TranscriptFormat",
    "detect",
    "formats",
    "load_words",
    "map_speakers",
    "read_segments",
    "read_transcript",
    "timed_words",
    "word_suffixes",
]


@cache
def formats() -> tuple[TranscriptFormat, ...]:
    """Every format that is known, in the order in which they are asked."""
    found: list[TranscriptFormat] = []
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        given = getattr(loaded, "FORMAT", ())
        found += [given] if isinstance(given, TranscriptFormat) else given
    return tuple(sorted(found, key=lambda form: (-form.priority, form.name)))


@cache
def word_suffixes() -> tuple[str, ...]:
    """File name endings of word files beside audio; `.json`, that of the Moshi layout, comes first."""
    known = {suffix for form in formats() for suffix in form.suffixes}
    return tuple(sorted(known, key=lambda suffix: (suffix != ".json", suffix)))


def detect(content: Content) -> TranscriptFormat | None:
    """The format of a file, judged by its content (plain text also by its `.txt`); None where none fits."""
    return next((form for form in formats() if form.detect(content)), None)


def read_transcript(path: Path) -> Transcript:
    """The words of a transcript, untouched, with the speaker labels of the file.

    Raises CallRefused with code words-unreadable, words-unknown-format, words-no-word-times or
    words-speakers-only.
    """
    form, content = _opened(path)
    transcript = form.parse(content)
    if content.replaced:
        transcript.notes.append(
            ("words-not-utf8", f"{path.name}: {content.replaced} undecodable bytes or sequences")
        )
    return _in_unicode(transcript)


def _in_unicode(transcript: Transcript) -> Transcript:
    """The transcript with halves of surrogate pairs spelled in labels and method; `repair_words` replaces those of words.

    Raises CallRefused for text conditions that hold one.
    """
    if not is_unicode(json.dumps(transcript.text_conditions, ensure_ascii=False)):
        what = "`text_conditions` holds half a surrogate pair"
        raise refusal("words-unreadable", what, transcript.path)
    labels = [*transcript.speakers, *transcript.channels.values(), transcript.agent or "", transcript.method]
    if all(map(is_unicode, labels)):
        return transcript
    return replace(
        transcript,
        words=[replace(word, speaker=in_unicode(word.speaker)) for word in transcript.words],
        method=in_unicode(transcript.method),
        channels={index: in_unicode(label) for index, label in transcript.channels.items()},
        agent=None if transcript.agent is None else in_unicode(transcript.agent),
        clock_offsets_us={in_unicode(label): value for label, value in transcript.clock_offsets_us.items()},
    )


def read_segments(path: Path) -> list[Segment]:
    """The stretches of a file that has no word times: captions, utterances, speaker turns, lines of plain text.

    Raises CallRefused as `read_transcript` does; also words-unreadable where the format has no segments.
    """
    form, content = _opened(path)
    if form.segments is None:
        raise refusal("words-unreadable", f"{form.title} has no segments to time", path)
    return form.segments(content)


def _opened(path: Path) -> tuple[TranscriptFormat, Content]:
    try:
        content = Content(path, read_bounded(path))
    except (OSError, CorpusError) as error:
        raise refusal("words-unreadable", str(error), path) from error
    if content.refused is not None:
        raise refusal("words-unreadable", str(content.refused), path)
    form = detect(content)
    if form is None:
        if content.json is NOT_JSON and path.suffix.lower() == ".json":
            raise refusal("words-unreadable", str(content.json_fault), path)
        known = ", ".join(form.title for form in formats())
        raise refusal(
            "words-unknown-format",
            "is in no known transcript format",
            path,
            next_step=f"Known formats: {known}.",
        )
    return form, content


def load_words(
    path: Path, *, duration_us: int, log: ProblemLog, rule: SpeakerRule = DEFAULT_RULE
) -> tuple[list[TimedWord], Transcript]:
    """Read, label and repair in one go: the timed words of agent and caller, and the transcript they come from.

    Raises CallRefused as `read_transcript` does, and under `log.strict` for the first repair.
    """
    transcript = map_speakers(read_transcript(path), rule)
    return timed_words(transcript, duration_us=duration_us, log=log), transcript


def timed_words(transcript: Transcript, *, duration_us: int, log: ProblemLog) -> list[TimedWord]:
    """The repaired words of a transcript within the audio. Under `log.strict` the first repair raises CallRefused."""
    for code, message in transcript.notes:
        log.add(code, message)
    return repair_words(
        transcript.words,
        duration_us=duration_us,
        log=log,
        method=transcript.method or transcript.format,
    )
